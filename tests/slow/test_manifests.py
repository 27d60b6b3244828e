"""config/ as kustomize renders it, in a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from epp.datastore.inference_objective import GROUPS
from tests.kube.caller import Caller, Refused
from tests.kube.harness import ControlPlane
from tests.kube.installation import (
    CONFIG,
    Manifests,
    flags_of,
    install,
    rendered,
    rendered_as_documented,
)

pytestmark = pytest.mark.slow

PODS = "/api/v1/namespaces/{namespace}/pods"
POOLS = "/apis/inference.networking.k8s.io/v1/namespaces/{namespace}/inferencepools"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
SECRETS = "/api/v1/namespaces/{namespace}/secrets"
THIS_POOL = {"fieldSelector": "metadata.name=model-servers"}
THIS_LEASE = "epp-default-model-servers.llm-d.ai"


def pod_of(manifests: Manifests) -> dict[str, Any]:
    """The pod that the Deployment's controller would create."""
    (deployment,) = [each for each in manifests if each["kind"] == "Deployment"]
    template = deployment["spec"]["template"]
    names = {"name": "epp-0", "namespace": deployment["metadata"]["namespace"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], **names},
        "spec": template["spec"],
    }


@pytest.mark.parametrize("overlay", ["base", "overlays/ha"])
def test_everything_is_accepted_and_applying_it_again_changes_nothing(
    admin: Caller, namespace: str, tmp_path: Path, overlay: str
) -> None:
    manifests = rendered(overlay, namespace, tmp_path)

    first = [admin.apply(manifest) for manifest in manifests]
    second = [admin.apply(manifest) for manifest in manifests]

    assert {each["metadata"]["namespace"] for each in first} == {namespace}
    versions = [[each["metadata"]["resourceVersion"] for each in time] for time in (first, second)]
    assert versions[0] == versions[1]


@pytest.mark.parametrize("overlay", ["base", "overlays/ha"])
def test_the_documented_overlay_is_for_one_pool_in_all_its_parts(
    admin: Caller, namespace: str, tmp_path: Path, overlay: str
) -> None:
    manifests = rendered_as_documented(overlay, namespace, tmp_path)

    stored = [admin.apply(manifest) for manifest in manifests]

    roles = [each for each in stored if each["kind"] == "Role"]
    rules = [rule for role in roles for rule in role["rules"]]
    named = [rule["resourceNames"] for rule in rules if "resourceNames" in rule]
    lease = f"epp-{namespace}-llama.llm-d.ai"
    assert named == ([["llama"]] if overlay == "base" else [["llama"], [lease]])
    assert flags_of(manifests)[0] == "--pool-name=llama"
    assert {each["metadata"]["namespace"] for each in stored} == {namespace}


def test_the_pod_meets_the_restricted_security_standard(
    admin: Caller, namespace: str, tmp_path: Path
) -> None:
    enforce = {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
    own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    admin.patch(own, {"metadata": enforce})
    pod = pod_of(rendered("base", namespace, tmp_path))

    admin.create(pod, dryRun="All")

    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(Refused, match="PodSecurity"):
        admin.create(pod, dryRun="All")


def test_the_example_pool_is_accepted(admin: Caller, namespace: str) -> None:
    pool = yaml.safe_load((CONFIG / "examples/inference-pool.yaml").read_text())
    pool["metadata"]["namespace"] = namespace

    admin.apply(pool)


@pytest.fixture(params=["base", "overlays/ha"])
def overlay(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def picker(
    admin: Caller, control_plane: ControlPlane, namespace: str, tmp_path: Path, overlay: str
) -> Iterator[Caller]:
    """The Endpoint Picker's own service account, with the rights the overlay gives it."""
    account = install(overlay, admin, control_plane, namespace, tmp_path)
    with Caller(control_plane, account.token()) as caller:
        yield caller


def test_pods_and_the_pool_may_be_listed_and_watched(picker: Caller, namespace: str) -> None:
    for collection, query in ((PODS, {"labelSelector": "app=x"}), (POOLS, THIS_POOL)):
        path = collection.format(namespace=namespace)
        listed = picker.request("GET", path, limit="500", **query)
        watch = {"watch": "true", "timeoutSeconds": "1", "allowWatchBookmarks": "true"}
        version = {"resourceVersion": listed["metadata"]["resourceVersion"]}
        initial = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}

        assert picker.status("GET", path, **watch, **version, **query) == 200
        assert picker.status("GET", path, **watch, **initial, **query) == 200


def test_objectives_may_be_listed_in_both_groups(picker: Caller, namespace: str) -> None:
    for group in GROUPS:
        path = f"/apis/{group}/v1alpha2/namespaces/{namespace}/inferenceobjectives"

        # 404 rather than 403: allowed, and not served by this API server.
        assert picker.status("GET", path) in (200, 404)


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("GET", POOLS, {}),
        ("GET", POOLS, {"fieldSelector": "metadata.name=other"}),
        ("GET", f"{POOLS}/model-servers", {}),
        ("PATCH", f"{POOLS}/model-servers/status", {}),
        ("POST", PODS, {}),
        ("GET", f"{PODS}/any", {}),
        ("DELETE", f"{PODS}/any", {}),
        ("GET", SECRETS, {}),
        ("GET", LEASES, {}),
        ("GET", f"{LEASES}/other", {}),
        ("DELETE", f"{LEASES}/{THIS_LEASE}", {}),
        ("GET", "/api/v1/namespaces/default/pods", {}),
        ("GET", "/api/v1/pods", {}),
        ("GET", "/api/v1/nodes", {}),
    ],
)
def test_everything_else_is_forbidden(
    picker: Caller, namespace: str, method: str, path: str, query: dict[str, str]
) -> None:
    assert picker.status(method, path.format(namespace=namespace), {}, **query) == 403


def test_only_a_replica_that_may_lead_has_a_lease(
    picker: Caller, namespace: str, overlay: str
) -> None:
    collection = LEASES.format(namespace=namespace)
    names = {"name": THIS_LEASE, "namespace": namespace}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": names}
    allowed = overlay == "overlays/ha"

    assert picker.status("POST", collection, lease) == (201 if allowed else 403)
    assert picker.status("GET", f"{collection}/{THIS_LEASE}") == (200 if allowed else 403)
    assert picker.status("PUT", f"{collection}/{THIS_LEASE}", lease) == (422 if allowed else 403)
