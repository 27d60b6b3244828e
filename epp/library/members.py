"""The endpoints of a library's picker: a pool that is changed by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from epp.datastore.snapshot import Snapshot
from epp.framework.endpoint import Endpoint, EndpointId, EndpointState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from epp.framework.data_layer import EndpointListener


class Members:
    """Endpoints by address, as a snapshot that is replaced by every change."""

    def __init__(self, listeners: Sequence[EndpointListener], now: Callable[[], float]) -> None:
        self.priorities: Mapping[str, int] = {}
        self._listeners = listeners
        self._now = now
        self._by_address: dict[str, Endpoint] = {}
        self._snapshot = Snapshot(synced=True)

    def snapshot(self) -> Snapshot:
        """The endpoints as of now."""
        return self._snapshot

    async def wait_synced(self) -> None:
        """There is nothing to wait for."""

    def get(self, address: str) -> Endpoint:
        """The endpoint `address`; raises `LookupError` when there is none."""
        found = self._by_address.get(address)
        if found is None:
            raise LookupError(f"there is no endpoint {address!r}")
        return found

    def add(self, address: str, labels: Mapping[str, str]) -> Endpoint:
        """Add an endpoint, or give one other labels."""
        old = self._by_address.get(address)
        state = EndpointState(self._now) if old is None else old.state
        made = self._by_address[address] = _endpoint(address, labels, state)
        self._publish()
        for listener in self._listeners:
            tell = listener.endpoint_added if old is None else listener.endpoint_replaced
            tell(made)
        return made

    def remove(self, address: str) -> Endpoint:
        """Forget an endpoint; raises `LookupError` when there is none."""
        gone = self.get(address)
        del self._by_address[address]
        self._publish()
        for listener in self._listeners:
            listener.endpoint_removed(gone)
        return gone

    def _publish(self) -> None:
        self._snapshot = Snapshot(
            synced=True,
            endpoints=tuple(self._by_address.values()),
            by_address=dict(self._by_address),
        )


def _endpoint(address: str, labels: Mapping[str, str], state: EndpointState) -> Endpoint:
    host, _, port = address.rpartition(":")
    is_address = bool(host) and port.isascii() and port.isdigit()
    number = int(port) if is_address else 0
    return Endpoint(
        id=EndpointId(address, number),
        address=address,
        ip=host.strip("[]") if is_address else address,
        port=number,
        name=address,
        namespace="default",
        pod_name=address,
        rank=0,
        labels=dict(labels),
        state=state,
    )
