"""The files of config/ agree with each other and with the command line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from epp.app.options import ServeOptions
from epp.cli.options import parse_serve
from epp.datastore.inference_pool import parse_inference_pool, unknown_pool_fields
from epp.gateway.health import LIVENESS, READINESS_NAMES

CONFIG = Path(__file__).parents[3] / "config"


def manifest(path: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((CONFIG / path).read_text())
    return document


@pytest.fixture
def container() -> dict[str, Any]:
    (found,) = manifest("base/deployment.yaml")["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


@pytest.fixture
def options(container: dict[str, Any]) -> ServeOptions:
    """What the container's arguments mean to `epp serve`."""
    environment = {entry["name"]: "default" for entry in container["env"]}
    command = parse_serve(container["args"], environment)
    assert not command.warnings
    return command.options


def test_the_deployment_reads_the_pool_the_role_allows(options: ServeOptions) -> None:
    pods, pools, objectives = manifest("base/role.yaml")["rules"]

    assert pools["resourceNames"] == [options.pool_name]
    assert pods["resources"] == ["pods"]
    assert objectives["resources"] == ["inferenceobjectives"]
    assert pods["verbs"] == pools["verbs"] == objectives["verbs"] == ["list", "watch"]


def test_the_lease_of_the_role_is_named_after_namespace_and_pool(options: ServeOptions) -> None:
    _, lease = manifest("overlays/ha/leader-election-role.yaml")["rules"]

    assert lease["resourceNames"] == [f"epp-{options.pool_namespace}-{options.pool_name}.llm-d.ai"]


def test_the_container_declares_the_ports_it_listens_on(
    container: dict[str, Any], options: ServeOptions
) -> None:
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}

    assert ports == {
        "grpc-ext-proc": options.grpc_port,
        "grpc-health": options.grpc_health_port,
        "http-metrics": options.metrics_port,
    }
    for probe in ("livenessProbe", "readinessProbe"):
        assert container[probe]["grpc"]["port"] == options.grpc_health_port


@pytest.mark.parametrize(
    "path", ["base/deployment.yaml", "helm/inference-endpoint-picker/templates/_pod.tpl"]
)
def test_each_probe_asks_for_the_name_that_means_it(path: str) -> None:
    """Pitfall 52: a replica that only waits to lead must not be restarted."""
    text = (CONFIG / path).read_text()

    asked = re.findall(
        r"^ *(\w+)Probe:\n +grpc:\n +port: .+\n +service: (\S+)$", text, re.MULTILINE
    )

    assert asked == [("liveness", LIVENESS), ("readiness", "readiness")]
    assert "readiness" in READINESS_NAMES
    assert text.count("Probe:") == len(asked)


def test_the_pod_outlives_its_drain(options: ServeOptions) -> None:
    pod = manifest("base/deployment.yaml")["spec"]["template"]["spec"]

    assert pod["terminationGracePeriodSeconds"] > options.drain_timeout + options.shutdown_grace


def test_memory_is_enough_for_the_limits(container: dict[str, Any], options: ServeOptions) -> None:
    needed = 150 * 2**20 + options.max_streams * 50 * 2**10 + options.max_buffered_bytes

    assert container["resources"]["limits"]["memory"] == "3Gi"
    assert needed < 3 * 2**30


def test_the_example_pool_refers_to_the_service(options: ServeOptions) -> None:
    document = manifest("examples/inference-pool.yaml")
    pool = parse_inference_pool(document, default_namespace="elsewhere")
    reference = document["spec"]["endpointPickerRef"]
    service = manifest("base/service.yaml")

    assert (pool.name, pool.namespace) == (options.pool_name, options.pool_namespace)
    assert unknown_pool_fields(document) == []
    assert reference["name"] == service["metadata"]["name"]
    assert reference["port"]["number"] == service["spec"]["ports"][0]["port"] == options.grpc_port


@pytest.mark.parametrize(
    "path", ["service", "deployment", "network-policy", "pod-disruption-budget"]
)
def test_everything_selects_the_pods_of_the_deployment(path: str) -> None:
    template = manifest("base/deployment.yaml")["spec"]["template"]
    spec = manifest(f"base/{path}.yaml")["spec"]
    selector = spec.get("selector") or spec["podSelector"]

    assert selector.get("matchLabels", selector) == template["metadata"]["labels"]


def test_kustomize_takes_every_file_of_the_base() -> None:
    files = {path.name for path in (CONFIG / "base").glob("*.yaml")} - {"kustomization.yaml"}

    assert files == set(manifest("base/kustomization.yaml")["resources"])
