"""The endpoints of the pool in order and by address, kept up pod by pod."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from epp.framework.endpoint import Endpoint, EndpointId


def pool_order(endpoint: Endpoint) -> tuple[str, str, str, int]:
    """Sort key of a pool's endpoints; their order does not depend on who came first."""
    return endpoint.namespace, endpoint.pod_name, endpoint.id.pod_uid, endpoint.rank


class EndpointIndex:
    """Mutable; `frozen` gives copies that stay as they are.

    Copying is most of what a change of one pod costs: 0.5 ms at 40,000 endpoints.
    """

    def __init__(self) -> None:
        self._ordered: list[Endpoint] = []
        self._groups: dict[str, dict[EndpointId, Endpoint]] = {}
        self._by_ip: dict[str, tuple[Endpoint, ...]] = {}
        self._by_address: dict[str, Endpoint] = {}
        self._stale_ips: set[str] = set()

    def add(self, endpoints: Sequence[Endpoint]) -> None:
        """Take in the endpoints of one pod, by rank."""
        if not endpoints:
            return
        position = bisect_left(self._ordered, pool_order(endpoints[0]), key=pool_order)
        self._ordered[position:position] = endpoints
        for endpoint in endpoints:
            self._groups.setdefault(endpoint.ip, {})[endpoint.id] = endpoint
            self._stale_ips.add(endpoint.ip)

    def remove(self, endpoints: Sequence[Endpoint]) -> None:
        """Drop the endpoints of one pod, exactly as they were added."""
        if not endpoints:
            return
        position = bisect_left(self._ordered, pool_order(endpoints[0]), key=pool_order)
        del self._ordered[position : position + len(endpoints)]
        for endpoint in endpoints:
            del self._groups[endpoint.ip][endpoint.id]
            self._stale_ips.add(endpoint.ip)

    def frozen(
        self,
    ) -> tuple[tuple[Endpoint, ...], dict[str, Endpoint], dict[str, tuple[Endpoint, ...]]]:
        """All endpoints, by address and by IP, as of now."""
        for ip in self._stale_ips:
            self._refresh(ip)
        self._stale_ips.clear()
        return tuple(self._ordered), self._by_address.copy(), self._by_ip.copy()

    def _refresh(self, ip: str) -> None:
        for endpoint in self._by_ip.pop(ip, ()):
            self._by_address.pop(endpoint.address, None)
        group = self._groups[ip]
        if not group:
            del self._groups[ip]
            return
        self._by_ip[ip] = tuple(sorted(group.values(), key=pool_order))
        # An address can have two pods for a moment, when it is given away anew before the old
        # pod is seen to go; either stands for it.
        self._by_address.update((endpoint.address, endpoint) for endpoint in self._by_ip[ip])
