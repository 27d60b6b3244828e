"""A word on pods whose containers declare other ports than the pool's (pitfall 35)."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from epp.datastore.inference_pool import InferencePool
from epp.datastore.pods import Pod, declares_other_ports

log = structlog.get_logger(__name__)

MOST_TOLD = 100


class PortHints:
    """Warns of ports that hardly match, once for all pods that declare the same ones.

    Such pods are endpoints nevertheless: to declare a port means nothing to the kernel.
    """

    def __init__(self) -> None:
        self._told: set[tuple[frozenset[int], tuple[int, ...]]] = set()

    def look(self, pods: Iterable[Pod], pool: InferencePool) -> None:
        """Compare what these pods declare with the target ports of `pool`."""
        for pod in pods:
            if not pod.ready or pod.terminating or not declares_other_ports(pod, pool):
                continue
            ports = pod.declared_ports, pool.target_ports
            if ports in self._told or len(self._told) >= MOST_TOLD:
                continue
            self._told.add(ports)
            log.warning(
                "containers declare other ports than the target ports",
                pod=f"{pod.namespace}/{pod.name}",
                declared=sorted(pod.declared_ports),
                target_ports=list(pool.target_ports),
            )
