"""`topology-affinity-scorer`."""

from __future__ import annotations

import pytest

from epp.framework.data import Output
from epp.framework.data_types import PEER_ENDPOINT, TOPOLOGY, Topology
from epp.framework.endpoint import Endpoint
from epp.framework.request import InferenceRequest
from epp.plugins.scorers.topology_affinity import TopologyAffinityScorer
from epp.testing import FakeContext, built, endpoint_of, request_of

HERE = Topology(hostname="h1", rack="r1", zone="z1", region="g1")


def endpoint_at(name: str, topology: Topology | None, producer: str = "") -> Endpoint:
    endpoint = endpoint_of(name)
    if topology is not None:
        Output(TOPOLOGY, producer or TOPOLOGY.default_producer).put_on(endpoint, topology)
    return endpoint


def request_with_peer(peer: object) -> InferenceRequest:
    request = request_of()
    Output(PEER_ENDPOINT, PEER_ENDPOINT.default_producer).put(request, peer)
    return request


def test_the_tightest_shared_level_decides() -> None:
    peer = endpoint_at("e9", HERE)
    endpoints = [
        endpoint_at("e1", HERE),
        endpoint_at("e2", Topology(hostname="h2", rack="r1", zone="z1", region="g1")),
        endpoint_at("e3", Topology(hostname="h2", rack="r2", zone="z1", region="g1")),
        endpoint_at("e4", Topology(hostname="h2", rack="r2", zone="z2", region="g1")),
        endpoint_at("e5", Topology(hostname="h2", rack="r2", zone="z2", region="g2")),
        endpoint_at("e6", Topology(hostname="h1")),
        endpoint_at("e7", Topology()),
        endpoint_at("e8", None),
    ]

    scores = built(TopologyAffinityScorer).score(request_with_peer(peer), endpoints)

    assert scores == [1.0, 0.2, 0.05, 0.02, 0, 1.0, 0, 0]


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (Topology(hostname="h1"), 1.0),
        (Topology(rack="r1"), 0.2),
        (Topology(zone="z1"), 0.05),
        (Topology(region="g1"), 0.02),
        (Topology(), 0),
    ],
    ids=["host", "rack", "zone", "region", "nothing"],
)
def test_what_neither_knows_is_not_shared(known: Topology, expected: float) -> None:
    peer, other = endpoint_at("e9", known), endpoint_at("e1", known)

    assert built(TopologyAffinityScorer).score(request_with_peer(peer), [other]) == [expected]


def test_without_a_peer_or_its_topology_all_score_0() -> None:
    endpoints = [endpoint_at("e1", HERE), endpoint_at("e2", None)]
    scorer = built(TopologyAffinityScorer)

    assert scorer.score(request_of(), endpoints) == [0, 0]
    assert scorer.score(request_with_peer(endpoint_at("e9", None)), endpoints) == [0, 0]
    assert scorer.score(request_with_peer("no endpoint"), endpoints) == [0, 0]


def test_topology_is_optional_unless_its_producer_is_named() -> None:
    unnamed, named = FakeContext(), FakeContext()
    peer, other = endpoint_at("e9", HERE, "mine"), endpoint_at("e1", HERE, "mine")

    built(TopologyAffinityScorer, unnamed)
    scorer = built(TopologyAffinityScorer, named, topology_producer_name="mine")

    assert not any(made.required for made in unnamed.inputs)
    assert [made.data_type for made in named.inputs if made.required] == [TOPOLOGY]
    assert scorer.score(request_with_peer(peer), [other]) == [1]
