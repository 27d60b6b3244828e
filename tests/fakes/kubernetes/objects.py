"""Manifests of a cluster, as short as a test wants to write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Manifest = dict[str, Any]

LLAMA = {"app": "llama"}


def pod(
    name: str,
    labels: Mapping[str, str] = LLAMA,
    *,
    namespace: str = "models",
    node: str = "node-0",
    annotations: Mapping[str, str] | None = None,
) -> Manifest:
    """A pod. With a node its deletion is graceful: asked for first, done by a second request."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": dict(labels),
            "annotations": dict(annotations or {}),
        },
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": False,
            "containers": [{"name": "server", "image": "none"}],
        },
    }


def pod_status(*ips: str, ready: bool = True, phase: str = "Running") -> Manifest:
    """What the kubelet writes; to be merged into a pod's `/status`."""
    conditions = [
        {
            "type": kind,
            "status": "True" if ready else "False",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for kind in ("Ready", "ContainersReady")
    ]
    addresses = {"podIP": ips[0], "podIPs": [{"ip": ip} for ip in ips]} if ips else {}
    return {
        "status": {"phase": phase, "hostIP": "192.0.2.1", "conditions": conditions, **addresses}
    }


def inference_pool(
    *ports: int,
    labels: Mapping[str, str] = LLAMA,
    name: str = "pool",
    namespace: str = "models",
    **spec: Any,
) -> Manifest:
    """An InferencePool."""
    return {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": dict(labels)},
            "targetPorts": [{"number": number} for number in ports or (8000,)],
            "endpointPickerRef": {"name": "epp", "port": {"number": 9002}},
            **spec,
        },
    }
