from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from epp.datastore.pods import Pod
from epp.kubernetes import objects
from epp.kubernetes.envelopes import decode_bookmark
from epp.kubernetes.resource import ObjectKey


def pod_text(*, metadata: Any = None, status: Any = None) -> bytes:
    defaults = {"name": "a", "namespace": "models", "uid": "uid-a", "resourceVersion": "7"}
    return json.dumps(
        {
            "kind": "Pod",
            "metadata": defaults | (metadata or {}),
            "spec": {"containers": [{"name": "server"}]},
            **({} if status is None else {"status": status}),
        }
    ).encode()


def decoded(**parts: Any) -> Pod:
    return objects.decode_pod(pod_text(**parts)).value


def ready(status: str = "True", **more: Any) -> dict[str, Any]:
    return {
        "conditions": [
            {"type": "Initialized", "status": "True"},
            {"type": "Ready", "status": status},
        ]
    } | more


def test_a_pod_is_reduced_to_what_is_read_of_it() -> None:
    found = objects.decode_pod(
        pod_text(
            metadata={
                "labels": {"app": "llama"},
                "annotations": {"llm-d.ai/active-ports": "8000", "other": "x"},
                "managedFields": [{"manager": "kubelet"}],
            },
            status=ready(podIP="10.0.0.1", podIPs=[{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]),
        )
    )

    assert found.key == ObjectKey("models", "a")
    assert (found.uid, found.resource_version) == ("uid-a", "7")
    assert found.value == Pod(
        uid="uid-a",
        name="a",
        namespace="models",
        ips=("10.0.0.1", "fd00::1"),
        labels={"app": "llama"},
        annotations={"llm-d.ai/active-ports": "8000"},
        ready=True,
    )


@pytest.mark.parametrize(
    ("status", "is_ready"),
    [
        (None, False),
        ({}, False),
        ({"phase": "Pending"}, False),
        ({"conditions": None}, False),
        (ready(), True),
        (ready("False"), False),
        (ready("Unknown"), False),
        ({"conditions": [{"type": "ContainersReady", "status": "True"}]}, False),
        (ready("False", phase="Succeeded"), False),
    ],
)
def test_a_pod_is_ready_when_its_condition_says_so(status: Any, is_ready: bool) -> None:
    assert decoded(status=status).ready is is_ready


@pytest.mark.parametrize(
    ("status", "ips"),
    [
        ({}, ()),
        ({"podIP": ""}, ()),
        ({"podIP": "10.0.0.1"}, ("10.0.0.1",)),
        ({"podIP": "10.0.0.1", "podIPs": None}, ("10.0.0.1",)),
        ({"podIP": "10.0.0.1", "podIPs": []}, ("10.0.0.1",)),
        ({"podIP": "fd00::1", "podIPs": [{"ip": "fd00::1"}]}, ("fd00::1",)),
        ({"podIPs": [{}]}, ()),
    ],
)
def test_addresses_are_those_of_the_pod_in_its_order(status: Any, ips: tuple[str, ...]) -> None:
    assert decoded(status=status).ips == ips


def test_a_pod_that_was_told_to_go_is_terminating_though_it_is_ready() -> None:
    pod = decoded(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}, status=ready())

    assert pod.terminating
    assert pod.ready


@pytest.mark.parametrize(
    ("spec", "declared"),
    [
        ({}, set()),
        ({"containers": None, "initContainers": None}, set()),
        ({"containers": [{"name": "server"}, {"ports": None}]}, set()),
        ({"containers": [{"ports": [{"containerPort": 1}, {"containerPort": 2}]}]}, {1, 2}),
        (
            {
                "containers": [{"ports": [{"containerPort": 8200}]}],
                "initContainers": [{"ports": [{"containerPort": 8000}], "restartPolicy": "Always"}],
            },
            {8000, 8200},
        ),
    ],
    ids=["nothing", "nulls", "no ports", "two ports", "a sidecar that is started first"],
)
def test_ports_are_those_that_any_container_declares(spec: Any, declared: set[int]) -> None:
    text = json.dumps(json.loads(pod_text()) | {"spec": spec}).encode()

    assert objects.decode_pod(text).value.declared_ports == declared


def test_nulls_are_as_good_as_nothing() -> None:
    pod = decoded(metadata={"labels": None, "annotations": None, "deletionTimestamp": None})

    assert (pod.labels, pod.annotations, pod.terminating) == ({}, {}, False)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"metadata": 1}', pod_text(metadata={"labels": {"app": 1}})]
)
def test_what_is_no_pod_is_an_error(text: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        objects.decode_pod(text)


def test_the_status_of_a_pool_is_not_kept() -> None:
    document = {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": {"name": "pool", "namespace": "models", "uid": "u", "generation": 3},
        "spec": {"targetPorts": [{"number": 8000}]},
        "status": {"parents": [{}]},
    }

    found = objects.decode_pool(json.dumps(document).encode()).value

    assert not found.is_terminating
    assert found.document == {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": {"name": "pool", "namespace": "models"},
        "spec": {"targetPorts": [{"number": 8000}]},
    }


@pytest.mark.parametrize(
    ("annotations", "ends"),
    [(None, False), ({}, False), ({"k8s.io/initial-events-end": "true"}, True)],
)
def test_the_end_of_the_initial_events_is_an_annotation(annotations: Any, ends: bool) -> None:
    text = json.dumps({"metadata": {"resourceVersion": "5", "annotations": annotations}})

    bookmark = decode_bookmark(text)

    assert bookmark.ends_initial_events is ends
    assert bookmark.metadata.resource_version == "5"


def test_resources_know_their_paths() -> None:
    pods = objects.pods("models", "app=llama")
    pools = objects.inference_pools("models", "pool")

    assert pods.path == "/api/v1/namespaces/models/pods"
    assert pods.selection == {"labelSelector": "app=llama"}
    assert pools.path == ("/apis/inference.networking.k8s.io/v1/namespaces/models/inferencepools")
    assert pools.selection == {"fieldSelector": "metadata.name=pool"}
