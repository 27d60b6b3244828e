"""Objects as a cluster's controllers and kubelets would write them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

API = "/api/v1"
CREATED = "2026-01-01T00:00:00Z"


def namespace_of(name: str) -> dict[str, Any]:
    """A namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def pool(
    namespace: str, ports: Sequence[int] = (), labels: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The pool that config/base picks for."""
    return {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": {"name": "model-servers", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": dict(labels or {})},
            "targetPorts": [{"number": port} for port in ports],
        },
    }


def pod(name: str, namespace: str, **labels: str) -> dict[str, Any]:
    """A pod on a node, so that its deletion is only asked for until it is forced."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "nodeName": "node",
            "automountServiceAccountToken": False,
            "containers": [{"name": "server", "image": "none"}],
        },
    }


def running(ip: str, *, ready: bool = True) -> dict[str, Any]:
    """The status of a pod, as a patch."""
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": CREATED}
    return {
        "status": {
            "phase": "Running",
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "conditions": [condition],
        }
    }


def stored_pod(name: str, namespace: str, ip: str, **labels: str) -> dict[str, Any]:
    """A running pod as it lies in etcd."""
    made = pod(name, namespace, **labels)
    made["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": CREATED}
    return {**made, **running(ip)}
