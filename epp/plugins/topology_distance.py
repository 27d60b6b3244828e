"""How near candidates are to the endpoint that another stage of the request was given to."""

from __future__ import annotations

from collections.abc import Sequence

from epp.framework.data_types import PEER_ENDPOINT, TOPOLOGY, Topology
from epp.framework.endpoint import Endpoint
from epp.framework.plugin import PluginContext
from epp.framework.request import InferenceRequest

LEVELS = ("host", "rack", "zone", "region")
"""What two endpoints can share, tightest first."""


class TopologyDistance:
    """Tells what candidates share with the peer endpoint, in levels of `LEVELS`."""

    def __init__(self, context: PluginContext, producer: str) -> None:
        # Optional: where nobody knows a topology, all candidates are as near. A producer that is
        # named is one that somebody counts on.
        self._topology = context.consumes(
            TOPOLOGY, producer=producer or None, required=bool(producer)
        )
        self._peer = context.consumes(PEER_ENDPOINT, required=False)

    def levels(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[int] | None:
        """For each endpoint the index of the tightest shared level, or their number if none.

        None: the request has no peer, or nobody knows where that is.
        """
        peer = self._peer.of_request(request)
        here = self._topology.on(peer) if isinstance(peer, Endpoint) else None
        if here is None:
            return None
        return [
            len(LEVELS) if there is None else _tightest_shared(here, there)
            for there in self._topology.values(request, endpoints)
        ]


def _tightest_shared(one: Topology, other: Topology) -> int:
    if one.hostname and one.hostname == other.hostname:
        return 0
    if one.rack and one.rack == other.rack:
        return 1
    if one.zone and one.zone == other.zone:
        return 2
    if one.region and one.region == other.region:
        return 3
    return len(LEVELS)
