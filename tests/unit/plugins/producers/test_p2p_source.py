"""Which endpoint others are told to fetch a prefix from."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from epp.framework.data_types import PREFIX_MATCH, PrefixMatch
from epp.framework.endpoint import Endpoint
from epp.framework.request import InferenceRequest
from epp.framework.scheduling_results import ProfileResult, SchedulingResult
from epp.plugins.producers.p2p_source import P2pSourceParameters, P2pSourceProducer
from epp.testing import built, endpoint_of, put, request_of

HEADER = "x-kv-cache-source-host-port"
E1, E2, E3 = POOL = tuple(endpoint_of(f"e{number}") for number in (1, 2, 3))


def source(
    producer: P2pSourceProducer,
    matches: dict[Endpoint, PrefixMatch],
    computing: Endpoint,
    *,
    prefill: Endpoint | None = None,
    profile: str = "prefill",
    request: InferenceRequest | None = None,
) -> str | None:
    request = request or request_of()
    put(PREFIX_MATCH, request, matches)
    profiles = {"decode": ProfileResult(endpoints=(computing,), candidates=POOL)}
    if prefill is not None:
        profiles[profile] = ProfileResult(endpoints=(prefill,))
    producer.produce(request, list(matches))
    producer.pre_request(request, SchedulingResult(primary="decode", profiles=profiles))
    return request.headers.get(HEADER)


def holding(blocks: int) -> PrefixMatch:
    return PrefixMatch(blocks, 10, 64)


def test_the_endpoint_that_holds_most_is_named_to_another_one() -> None:
    matches = {E1: holding(2), E2: holding(8), E3: holding(4)}

    assert source(built(P2pSourceProducer), matches, E1) == "10.0.0.2:8000"


def test_nobody_is_named_to_the_one_that_holds_most_or_when_nobody_holds_any() -> None:
    producer = built(P2pSourceProducer)

    assert source(producer, {E1: holding(2), E2: holding(8)}, E2) is None
    assert source(producer, {E1: holding(0), E2: holding(0)}, E1) is None
    assert source(producer, {}, E1) is None


@pytest.mark.parametrize(("delta", "named"), [(1, True), (128, True), (129, False)])
def test_the_source_must_hold_so_many_tokens_more(delta: int, named: bool) -> None:
    producer = built(P2pSourceProducer, min_cached_token_delta=delta)

    assert (source(producer, {E1: holding(6), E2: holding(8)}, E1) is not None) is named


@pytest.mark.parametrize("profile", ["prefill", "mine"])
def test_the_prefill_endpoint_is_the_one_that_computes(profile: str) -> None:
    producer = built(P2pSourceProducer, prefill_profile_name=profile)
    matches = {E1: holding(0), E2: holding(8), E3: holding(8)}

    chosen = source(producer, {E1: holding(0), E2: holding(8)}, E2, prefill=E1, profile=profile)
    assert chosen == "10.0.0.2:8000"
    assert source(producer, matches, E1, prefill=E2, profile=profile) is None


def test_what_an_endpoint_holds_is_known_at_another_port_too() -> None:
    moved = replace(E1, port=9000, address="10.0.0.1:9000")
    producer = built(P2pSourceProducer, min_cached_token_delta=129)

    assert source(producer, {E1: holding(6), E2: holding(8)}, moved) is None


@pytest.mark.parametrize("matches", [{}, {E1: holding(8), E2: holding(0)}])
def test_what_a_client_put_into_the_header_is_removed(matches: dict[Endpoint, PrefixMatch]) -> None:
    request = request_of(headers={HEADER: "169.254.169.254:80"})

    assert source(built(P2pSourceProducer), matches, E1, request=request) is None
    assert request.headers.changes == {HEADER: None}


def test_a_request_without_the_header_is_left_as_it_is() -> None:
    request = request_of()

    source(built(P2pSourceProducer), {}, E1, request=request)

    assert request.headers.changes == {}


def test_only_the_cpu_tier_can_be_fetched_from_where_tiers_are_known() -> None:
    on_gpu = PrefixMatch(8, 10, 64, cached_blocks_by_tier={"gpu": 8})
    on_cpu = PrefixMatch(5, 10, 64, cached_blocks_by_tier={"cpu": 5, "gpu": 2})

    chosen = source(built(P2pSourceProducer), {E1: holding(0), E2: on_gpu, E3: on_cpu}, E1)

    assert chosen == "10.0.0.3:8000"


def test_sources_within_a_block_of_the_most_are_named_in_turns_idle_ones_more_often() -> None:
    producer = built(P2pSourceProducer)
    busy = endpoint_of("e7", waiting=3)
    matches = {E1: holding(0), E2: holding(8), busy: holding(7), E3: holding(6)}

    named = Counter(
        source(producer, matches, E1, request=request_of(request_id=f"request-{number}"))
        for number in range(2000)
    )

    assert set(named) == {"10.0.0.2:8000", "10.0.0.7:8000"}
    assert 3 < named["10.0.0.2:8000"] / named["10.0.0.7:8000"] < 5


def test_the_same_request_id_names_the_same_source() -> None:
    producer = built(P2pSourceProducer)
    matches = {E1: holding(0), E2: holding(8), E3: holding(8)}

    named = {source(producer, matches, E1, request=request_of(request_id="é" * 5)) for _ in "abc"}

    assert len(named) == 1


def test_a_delta_below_1_is_refused() -> None:
    with pytest.raises(ValueError, match="minCachedTokenDelta"):
        P2pSourceParameters.model_validate({"minCachedTokenDelta": 0})
