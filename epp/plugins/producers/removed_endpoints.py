"""Endpoints that are gone, so that requests still in flight there teach nothing about them."""

from __future__ import annotations

from epp.framework.endpoint import EndpointId

_REMEMBERED = 4096


class RemovedEndpoints:
    """The endpoints removed last; an endpoint that comes back is no longer one of them."""

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        self._ids: dict[EndpointId, None] = {}

    def __contains__(self, endpoint: EndpointId) -> bool:
        return endpoint in self._ids

    def add(self, endpoint: EndpointId) -> None:
        """It is gone."""
        self._ids[endpoint] = None
        if len(self._ids) > _REMEMBERED:
            del self._ids[next(iter(self._ids))]

    def discard(self, endpoint: EndpointId) -> None:
        """It is there (again)."""
        self._ids.pop(endpoint, None)
