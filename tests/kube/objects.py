"""Objects for tests with a real API server, beside those that fakes know as well."""

from __future__ import annotations

import uuid

from tests.fakes.kubernetes.objects import Manifest, pod, pod_status


def namespace_of(name: str) -> Manifest:
    """A namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def stored_pod(name: str, namespace: str, ip: str, **labels: str) -> Manifest:
    """A running pod as it lies in etcd."""
    made = pod(name, labels, namespace=namespace)
    made["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {**made, **pod_status(ip)}


def objective(name: str, **spec: object) -> dict[str, object]:
    """An InferenceObjective of the namespace `models`, about the pool `pool`."""
    return {
        "apiVersion": "llm-d.ai/v1alpha2",
        "kind": "InferenceObjective",
        "metadata": {"name": name, "namespace": "models"},
        "spec": {"poolRef": {"name": "pool"}, **spec},
    }
