"""`topology-affinity-filter`."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from epp.framework.data import Output
from epp.framework.data_types import PEER_ENDPOINT, TOPOLOGY, Topology
from epp.framework.endpoint import Endpoint
from epp.framework.request import InferenceRequest
from epp.plugins.filters.topology_affinity import TopologyAffinityFilter
from epp.testing import built, endpoint_of, request_of

PLACES = [
    Topology(hostname="h1", rack="r1", zone="z1", region="g1"),
    Topology(hostname="h2", rack="r1", zone="z1", region="g1"),
    Topology(hostname="h3", rack="r2", zone="z1", region="g1"),
    Topology(hostname="h4", rack="r3", zone="z2", region="g1"),
    Topology(hostname="h5", rack="r4", zone="z3", region="g2"),
    None,
]


def endpoint_at(name: str, topology: Topology | None) -> Endpoint:
    endpoint = endpoint_of(name)
    if topology is not None:
        Output(TOPOLOGY, TOPOLOGY.default_producer).put_on(endpoint, topology)
    return endpoint


def request_with_peer(topology: Topology | None) -> InferenceRequest:
    request = request_of()
    peer = endpoint_at("e9", topology)
    Output(PEER_ENDPOINT, PEER_ENDPOINT.default_producer).put(request, peer)
    return request


def candidates() -> list[Endpoint]:
    return [endpoint_at(f"e{index}", place) for index, place in enumerate(PLACES)]


@pytest.mark.parametrize(("level", "kept"), [("host", 1), ("rack", 2), ("zone", 3), ("region", 4)])
def test_endpoints_are_kept_that_share_the_level_or_a_tighter_one(level: str, kept: int) -> None:
    endpoints = candidates()

    near = built(TopologyAffinityFilter, min_affinity=level).filter(
        request_with_peer(PLACES[0]), endpoints
    )

    assert near == endpoints[:kept]


def test_the_host_must_be_shared_unless_told_otherwise() -> None:
    endpoints = candidates()

    assert built(TopologyAffinityFilter).filter(request_with_peer(PLACES[1]), endpoints) == [
        endpoints[1]
    ]


def test_all_are_kept_when_none_is_near_or_nobody_knows_the_peer() -> None:
    endpoints = candidates()
    keeper = built(TopologyAffinityFilter)

    assert keeper.filter(request_with_peer(Topology(hostname="h9")), endpoints) == endpoints
    assert keeper.filter(request_with_peer(Topology()), endpoints) == endpoints
    assert keeper.filter(request_with_peer(None), endpoints) == endpoints
    assert keeper.filter(request_of(), endpoints) == endpoints


def test_an_unknown_level_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ValidationError, match="'host', 'rack', 'zone' or 'region'"):
        built(TopologyAffinityFilter, min_affinity="planet")
