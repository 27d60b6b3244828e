"""Our CustomResourceDefinition in a real API server."""

from __future__ import annotations

import pytest

from tests.fakes.pool_manifests import DELETED, INVALID, VALID, Change, manifest_with, name_of
from tests.kube.caller import Caller, Manifest, Refused

pytestmark = pytest.mark.slow

GROUP = "/apis/inference.networking.k8s.io/v1"


def create(admin: Caller, namespace: str, manifest: Manifest) -> Manifest:
    path = f"{GROUP}/namespaces/{namespace}/inferencepools"
    return admin.request("POST", path, manifest)


@pytest.mark.parametrize("change", VALID, ids=name_of)
def test_a_valid_pool_is_accepted(admin: Caller, namespace: str, change: Change) -> None:
    create(admin, namespace, manifest_with(change))


@pytest.mark.parametrize(
    "change", [change for change in INVALID if change[0] != "apiVersion"], ids=name_of
)
def test_an_invalid_pool_is_refused(admin: Caller, namespace: str, change: Change) -> None:
    with pytest.raises(Refused) as refused:
        create(admin, namespace, manifest_with(change))

    assert refused.value.status in (400, 422)


def test_what_is_absent_gets_its_default(admin: Caller, namespace: str) -> None:
    manifest = manifest_with(("spec/appProtocol", DELETED))
    manifest["spec"]["endpointPickerRef"] = {"name": "epp", "port": {"number": 9002}}

    spec = create(admin, namespace, manifest)["spec"]

    assert spec["appProtocol"] == "http"
    assert spec["endpointPickerRef"] == {
        "group": "",
        "kind": "Service",
        "name": "epp",
        "port": {"number": 9002},
        "failureMode": "FailClose",
    }


def test_unknown_fields_are_pruned(admin: Caller, namespace: str) -> None:
    stored = create(admin, namespace, manifest_with(("spec/unknown", 1)))

    assert "unknown" not in stored["spec"]


def test_status_is_written_apart_from_the_rest(admin: Caller, namespace: str) -> None:
    manifest = manifest_with()
    manifest["metadata"]["namespace"] = namespace
    created = create(admin, namespace, manifest)
    parents = [{"parentRef": {"name": "gateway"}, "controllerName": "example.org/controller"}]
    change = {"spec": {"appProtocol": "http"}, "status": {"parents": parents}}

    stored = admin.patch(manifest, change, "/status")

    assert stored["spec"] == created["spec"]
    assert stored["status"]["parents"][0]["parentRef"] == {
        "group": "gateway.networking.k8s.io",
        "kind": "Gateway",
        "name": "gateway",
    }


@pytest.mark.parametrize(
    "parent",
    [
        {},
        {"parentRef": {"name": ""}},
        {"parentRef": {"name": "gateway", "namespace": "A"}},
        {"parentRef": {"name": "gateway", "kind": "1st"}},
        {"parentRef": {"name": "gateway"}, "controllerName": "no-path"},
        {"parentRef": {"name": "gateway"}, "conditions": [{"type": "Accepted"}]},
        {"parentRef": {"name": "gateway"}, "conditions": [{"type": str(n)} for n in range(9)]},
    ],
)
def test_an_invalid_status_is_refused(admin: Caller, namespace: str, parent: Manifest) -> None:
    manifest = manifest_with()
    manifest["metadata"]["namespace"] = namespace
    create(admin, namespace, manifest)

    with pytest.raises(Refused) as refused:
        admin.patch(manifest, {"status": {"parents": [parent]}}, "/status")

    assert refused.value.status == 422


def test_the_short_name_is_infpool(admin: Caller) -> None:
    (resource,) = [
        each for each in admin.request("GET", GROUP)["resources"] if "/" not in each["name"]
    ]

    assert resource["shortNames"] == ["infpool"]
    assert resource["namespaced"]
