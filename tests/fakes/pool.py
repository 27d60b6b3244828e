"""Pods and pools for tests, in one line each."""

from __future__ import annotations

from typing import Any

from epp.datastore.inference_pool import InferencePool
from epp.datastore.pods import Pod


def pool_of(*target_ports: int, **changes: Any) -> InferencePool:
    """A pool `default/pool` with these target ports."""
    return InferencePool(
        **{"name": "pool", "namespace": "default", "target_ports": target_ports} | changes
    )


def pod_of(name: str = "a", ip: str = "10.0.0.1", **changes: Any) -> Pod:
    """A ready pod of the namespace `default`, its uid made of its name."""
    defaults: dict[str, Any] = {
        "uid": f"uid-{name}",
        "namespace": "default",
        "ips": (ip,),
        "ready": True,
    }
    return Pod(name=name, **defaults | changes)
