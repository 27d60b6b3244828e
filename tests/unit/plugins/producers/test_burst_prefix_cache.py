"""Waiting for the window of a burst, and for nothing longer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from epp.framework.data import Input, Output
from epp.framework.data_types import (
    PREFIX_MATCH,
    TOKENIZED_PROMPT,
    PrefixMatch,
    Prompt,
    TokenizedPrompt,
)
from epp.framework.endpoint import Endpoint
from epp.framework.request import InferenceRequest
from epp.plugins.producers.burst_prefix_cache import (
    BurstPrefixCacheParameters,
    BurstPrefixCacheProducer,
)
from epp.testing import built, endpoint_of, request_of
from tests.fakes.virtual_time import in_virtual_time

E1, E2 = POOL = (endpoint_of("e1"), endpoint_of("e2"))


def prompted(text: bytes | None) -> InferenceRequest:
    request = request_of()
    if text is not None:
        prompt = TokenizedPrompt((Prompt(text.ljust(-(-len(text) // 4) * 4, b"\0")),))
        Output(TOKENIZED_PROMPT, "token-producer").put(request, prompt)
    return request


async def match_of(
    producer: BurstPrefixCacheProducer, text: bytes | None, endpoints: Sequence[Endpoint] = POOL
) -> list[PrefixMatch | None]:
    request = prompted(text)
    await producer.produce(request, endpoints)
    matches = Input(PREFIX_MATCH)
    matches.bind(producer.name)
    return matches.values(request, endpoints)


def test_requests_with_one_prompt_match_on_one_endpoint_when_the_window_ends() -> None:
    producer = built(BurstPrefixCacheProducer, window_duration_ms=250)

    async def scenario() -> tuple[list[list[PrefixMatch | None]], float]:
        calls = [match_of(producer, text) for text in (b"same" * 90, b"same" * 90, b"other")]
        return await asyncio.gather(*calls), asyncio.get_running_loop().time()

    [one, two, other], ended_at = in_virtual_time(scenario())

    assert one == two == [PrefixMatch(2, 2, 64), PrefixMatch(0, 2, 64)]
    assert other == [PrefixMatch(0, 1, 64), PrefixMatch(0, 1, 64)]
    assert ended_at == pytest.approx(0.25)
    assert producer.timeout_seconds == pytest.approx(0.55)


def test_a_request_after_the_window_waits_for_the_next_one() -> None:
    producer = built(BurstPrefixCacheProducer)

    async def scenario() -> float:
        await match_of(producer, b"one")
        await match_of(producer, b"two")
        return asyncio.get_running_loop().time()

    assert in_virtual_time(scenario()) == pytest.approx(0.2)


def test_a_request_without_prompt_waits_too_and_matches_nowhere() -> None:
    producer = built(BurstPrefixCacheProducer)

    assert in_virtual_time(match_of(producer, None)) == [PrefixMatch(0, 0, 64)] * 2


def test_requests_beyond_the_batch_do_not_wait_and_match_nowhere() -> None:
    producer = built(BurstPrefixCacheProducer, max_batch_size=2)

    async def scenario() -> tuple[list[PrefixMatch | None], float, object]:
        waiting = [asyncio.create_task(match_of(producer, b"same")) for _ in range(2)]
        await asyncio.sleep(0)
        late = await match_of(producer, b"same")
        at, state = asyncio.get_running_loop().time(), producer.dump_state()
        assert await waiting[0] == await waiting[1] != late
        return late, at, state

    late, at, state = in_virtual_time(scenario())

    assert late == [PrefixMatch(0, 1, 64)] * 2
    assert at == 0
    assert state == {"waiting": 2}


def test_a_request_that_is_given_up_takes_no_part() -> None:
    producer = built(BurstPrefixCacheProducer)

    async def scenario() -> list[PrefixMatch | None]:
        gone = asyncio.create_task(match_of(producer, b"same"))
        stays = asyncio.create_task(match_of(producer, b"same"))
        await asyncio.sleep(0.05)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        return await stays

    assert in_virtual_time(scenario()) == [PrefixMatch(0, 1, 64)] * 2


def test_a_window_that_nobody_waits_for_leaves_no_timer() -> None:
    producer = built(BurstPrefixCacheProducer)

    async def scenario() -> float:
        gone = asyncio.create_task(match_of(producer, b"same"))
        await asyncio.sleep(0.05)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        assert producer.dump_state() == {"waiting": 0}
        early = asyncio.create_task(match_of(producer, b"same"))
        await asyncio.sleep(0.07)
        assert await match_of(producer, b"same") == await early
        return asyncio.get_running_loop().time()

    assert in_virtual_time(scenario()) == pytest.approx(0.15)


def test_an_endpoint_that_is_no_candidate_of_a_request_gets_no_match() -> None:
    producer = built(BurstPrefixCacheProducer)

    async def scenario() -> tuple[list[PrefixMatch | None], list[PrefixMatch | None]]:
        one, two = match_of(producer, b"same"), match_of(producer, b"same", [E2])
        return await asyncio.gather(one, two)

    with_both, with_the_other = in_virtual_time(scenario())

    assert with_both == [PrefixMatch(1, 1, 64), PrefixMatch(0, 1, 64)]
    assert with_the_other == [PrefixMatch(0, 1, 64)]


@pytest.mark.parametrize(
    "parameters",
    [
        {"windowDurationMs": 0},
        {"windowDurationMs": 10_001},
        {"maxPerReplica": 0},
        {"maxBatchSize": -2},
        {"blockSizeTokens": 0},
        {"maxPrefixTokensToMatch": 63},
        {"minColocateBlocks": -1},
        {"balanceBy": "luck"},
    ],
    ids=str,
)
def test_parameters_out_of_range_are_refused_by_name(parameters: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(parameters))):
        BurstPrefixCacheParameters.model_validate(parameters)


def test_parameters_are_read_as_they_stand_in_yaml() -> None:
    found = BurstPrefixCacheParameters.model_validate(
        {"balanceBy": "tokens", "maxPerReplica": 4, "maxBatchSize": -1}
    )

    assert (found.balance_by, found.max_per_replica, found.max_batch_size) == ("tokens", 4, -1)
