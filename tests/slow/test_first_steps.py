"""docs/first-steps.md: what it has applied is accepted, and fits together."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.helm.chart import CHART, helm
from tests.kube.caller import Caller
from tests.kube.installation import CONFIG, Manifests, command_of, rendered, restrict, the_one

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("definitions")]

PAGE = (CONFIG.parent / "docs/first-steps.md").read_text()


def example(name: str, namespace: str) -> Manifests:
    """A file of config/examples, moved to a namespace."""
    assert f"kubectl apply -f config/examples/{name}" in PAGE
    manifests = list(yaml.safe_load_all((CONFIG / "examples" / name).read_text()))
    for manifest in manifests:
        manifest["metadata"]["namespace"] = namespace
    return manifests


def test_everything_that_is_applied_is_there() -> None:
    applied = re.findall(r"kubectl apply -[fk] (config/\S+?)`?(?:[,\s]|$)", PAGE, re.MULTILINE)

    assert len(applied) >= 5
    assert [path for path in applied if not (CONFIG.parent / path).exists()] == []


def test_the_model_servers_are_those_that_sidecar_and_example_pool_select(
    admin: Caller, namespace: str, tmp_path: Path
) -> None:
    (servers,) = example("model-servers.yaml", namespace)
    (pool,) = example("inference-pool.yaml", namespace)
    sidecar = rendered("overlays/standalone-sidecar", namespace, tmp_path)
    options = command_of(sidecar, namespace).options
    restrict(admin, namespace)

    for manifest in (servers, pool):
        admin.apply(manifest)

    template = servers["spec"]["template"]
    (container,) = template["spec"]["containers"]
    assert template["metadata"]["labels"] == pool["spec"]["selector"]["matchLabels"]
    assert options.endpoint_selector == "app=model-server"
    assert template["metadata"]["labels"] == {"app": "model-server"}
    ports = [each["number"] for each in pool["spec"]["targetPorts"]]
    assert ports == list(options.endpoint_target_ports) == [8000]
    assert f"--port={ports[0]}" in container["args"]
    names = {"name": "model-server-0", "namespace": namespace}
    admin.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**template["metadata"], **names},
            "spec": template["spec"],
        },
        dryRun="All",
    )


def test_the_route_leads_to_the_pool_that_the_release_makes(admin: Caller, namespace: str) -> None:
    command = PAGE.partition("$ helm install ")[2].partition("\n...")[0].replace("\\\n", " ")
    release, _, *flags = command.split()
    text = helm("template", release, str(CHART), "--namespace", namespace, *flags)
    manifests = [document for document in yaml.safe_load_all(text) if document]
    gateway, route = example("gateway.yaml", namespace)

    for manifest in (*manifests, gateway, route):
        admin.apply(manifest)

    (rule,) = route["spec"]["rules"]
    (backend,) = rule["backendRefs"]
    (parent,) = route["spec"]["parentRefs"]
    assert backend["name"] == the_one(manifests, "InferencePool")["metadata"]["name"]
    assert parent["name"] == gateway["metadata"]["name"]
    policy = the_one(manifests, "DestinationRule")["spec"]["trafficPolicy"]
    assert policy["tls"]["mode"] == "SIMPLE"
    assert f"deployment/{the_one(manifests, 'Deployment')['metadata']['name']}" in PAGE
