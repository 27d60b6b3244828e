"""`expected-work-scorer`: what it says of endpoints."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.framework.data import Output
from epp.framework.data_types import (
    PREFIX_MATCH,
    SERVED_MODELS,
    TOKENIZED_PROMPT,
    PrefixMatch,
    Prompt,
    ServedModel,
    TokenizedPrompt,
)
from epp.framework.endpoint import Endpoint
from epp.framework.request import InferenceRequest
from epp.plugins.scorers.dispatched_work import Dispatch, DispatchedWork
from epp.plugins.scorers.expected_work import DISPATCHED_WORK, ExpectedWorkScorer, uncached_tokens
from epp.testing import built, endpoint_of, put, put_on, request_of

TYPE = "expected-work-scorer"


@dataclass(frozen=True, kw_only=True)
class Known:
    """What the scorer goes by at one endpoint."""

    cached: int = 0
    """Blocks of 64 tokens."""
    waiting: int = 0
    requests: int = 0
    adapters: tuple[str, ...] = ()
    recent: tuple[str, ...] = ()
    most: int = 0
    prefill: float | None = None
    decode: float | None = None


def endpoint(number: int, known: Known) -> Endpoint:
    made = endpoint_of(f"e{number}", max_active_models=known.most)
    work = DispatchedWork()
    at = made.id
    earlier = [Dispatch(at, work, 0, adapter, known.most) for adapter in known.recent]
    for adapter in known.adapters:
        Dispatch(at, work, 0, adapter, known.most)
    for dispatch in earlier:
        dispatch.over()
    work.waiting_tokens, work.requests = known.waiting, known.requests
    if known.prefill is not None:
        work.pace.prefill.add(known.prefill, 1000.0)
    if known.decode is not None:
        work.pace.decode.add(known.decode, 1000.0)
    put_on(DISPATCHED_WORK, made, work, TYPE)
    return made


def world(tokens: int, *known: Known, model: str = "m") -> tuple[InferenceRequest, list[Endpoint]]:
    request = request_of(model)
    endpoints = [endpoint(number, each) for number, each in enumerate(known, 1)]
    prompt = TokenizedPrompt((Prompt(bytes(4 * tokens)),))
    Output(TOKENIZED_PROMPT, TOKENIZED_PROMPT.default_producer).put(request, prompt)
    blocks = -(-tokens // 64)
    matches = {
        at: PrefixMatch(each.cached, blocks, 64) for at, each in zip(endpoints, known, strict=True)
    }
    put(PREFIX_MATCH, request, matches)
    return request, endpoints


FREE = Known(most=4)
LOADED = Known(most=4, recent=("a",))
RUNNING = Known(most=4, requests=1, adapters=("a",))
FULL = Known(most=2, requests=2, adapters=("b", "c"))
FULL_BUT_LOADED = Known(most=4, recent=("a",), requests=4, adapters=("b", "c", "d", "e"))


@pytest.mark.parametrize(
    ("parameters", "tokens", "known", "costs"),
    [
        pytest.param({}, 1000, [Known(), Known()], [1000, 1000], id="W1 idle"),
        pytest.param({}, 1000, [Known(cached=10), Known()], [360, 1000], id="W2 cached"),
        pytest.param({}, 640, [Known(cached=10), Known()], [1, 640], id="W3 all of it cached"),
        pytest.param({}, 0, [Known(), Known(requests=1)], [1, 101.2], id="W4 no prompt"),
        pytest.param({}, 1000, [Known(waiting=500, requests=2)], [2100], id="W5 500+1.4*1000+200"),
        pytest.param({}, 1000, [Known(requests=10)], [4000], id="W6 decodes only: 3*1000+1000"),
        pytest.param(
            {"alpha": 0.0, "kappa": 0.0}, 1000, [Known(waiting=7, requests=9)], [1007], id="W7 TTFT"
        ),
        pytest.param({"alpha": 0.5, "kappa": 10.0}, 100, [Known(requests=2)], [220], id="W8"),
        pytest.param({}, 100, [FREE, LOADED], [600, 100], id="W9 adapter to be loaded"),
        pytest.param({}, 100, [RUNNING], [220], id="W10 adapter runs: 1.2*100+100"),
        pytest.param({}, 100, [FULL], [2040], id="W11 no place: 1.4*600+200+1000"),
        pytest.param({}, 100, [FULL_BUT_LOADED], [2480], id="W12 others since: 1.8*600+400+1000"),
        pytest.param(
            {"adapter_load_tokens": 0.0, "adapter_slot_tokens": 50.0}, 100, [FULL], [390], id="W13"
        ),
        pytest.param({}, 100, [Known(adapters=("b",), most=0)], [100], id="W14 no adapters there"),
        pytest.param(
            {}, 100, [Known(prefill=1.0), Known(prefill=1.0), Known(prefill=3.0)],
            [100, 100, 300], id="W15 slow to first token",
        ),
        pytest.param(
            {}, 100, [Known(decode=1.0), Known(decode=2.0), Known(decode=1.0)],
            [100, 200, 100], id="W16 slow to write",
        ),
        pytest.param(
            {"slowness": False}, 100, [Known(prefill=1.0), Known(prefill=3.0)],
            [100, 100], id="W17 slowness is not looked at",
        ),
    ],
)  # fmt: skip
def test_cost_follows_the_formula(
    parameters: dict[str, Any], tokens: int, known: list[Known], costs: list[float]
) -> None:
    request, endpoints = world(tokens, *known, model="a")
    scorer = built(ExpectedWorkScorer, **parameters)

    assert scorer.costs(request, endpoints) == pytest.approx(costs)
    expected = [min(costs) / cost for cost in costs]
    assert scorer.score(request, endpoints) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        (None, 100),
        (PrefixMatch(0, 2, 64), 100),
        (PrefixMatch(1, 2, 64), 36),
        (PrefixMatch(2, 2, 64), 1),
        (PrefixMatch(2, 2, 64, cached_blocks=1), 36),
    ],
)
def test_what_is_not_cached_has_to_be_computed_the_last_token_always(
    match: PrefixMatch | None, expected: int
) -> None:
    assert uncached_tokens(100, match) == expected


def test_nothing_known_of_endpoints_and_prompt_makes_equals() -> None:
    endpoints = [endpoint_of(f"e{number}", updated_at=None) for number in range(3)]

    assert built(ExpectedWorkScorer).score(request_of(), endpoints) == [1, 1, 1]


def test_a_base_model_is_no_adapter_where_models_are_known() -> None:
    request, endpoints = world(100, FULL, model="base")
    scorer = built(ExpectedWorkScorer)
    as_adapter = scorer.costs(request, endpoints)

    models = [ServedModel(id="b", parent="base"), ServedModel(id="base")]
    put_on(SERVED_MODELS, endpoints[0], models)

    assert as_adapter == pytest.approx([2040])
    assert scorer.costs(request, endpoints) == pytest.approx([340])


def test_an_adapter_whose_model_is_known_stays_one() -> None:
    request, endpoints = world(100, FULL, model="a")
    put_on(SERVED_MODELS, endpoints[0], [ServedModel(id="a", parent="base")])

    assert built(ExpectedWorkScorer).costs(request, endpoints) == pytest.approx([2040])


paces = st.just(0.0) | st.floats(1e-9, 10)  # as a clock tells them
known_states = st.lists(
    st.builds(
        Known,
        cached=st.integers(0, 16),
        waiting=st.integers(0, 10**7),
        requests=st.integers(0, 1000),
        adapters=st.lists(st.sampled_from("abcd"), max_size=4, unique=True).map(tuple),
        recent=st.lists(st.sampled_from("abcd"), max_size=4, unique=True).map(tuple),
        most=st.integers(0, 4),
        prefill=st.none() | paces,
        decode=st.none() | paces,
    ),
    min_size=1,
    max_size=8,
)


@given(known=known_states, tokens=st.integers(0, 1000), order=st.randoms(use_true_random=False))
def test_scores_fall_with_costs_in_any_order_of_the_candidates(
    known: list[Known], tokens: int, order: random.Random
) -> None:
    request, endpoints = world(tokens, *known, model="a")
    scorer = built(ExpectedWorkScorer)

    costs = dict(zip(endpoints, scorer.costs(request, endpoints), strict=True))
    scores = dict(zip(endpoints, scorer.score(request, endpoints), strict=True))
    shuffled = order.sample(endpoints, len(endpoints))
    again = dict(zip(shuffled, scorer.score(request, shuffled), strict=True))

    by_cost = sorted(endpoints, key=costs.__getitem__)
    assert scores[by_cost[0]] == 1
    assert all(0 < score <= 1 for score in scores.values())
    assert [scores[each] for each in by_cost] == sorted(scores.values(), reverse=True)
    assert again == scores


@given(places=st.integers(1, 500), names=st.lists(st.text(max_size=300), max_size=60))
def test_an_endpoint_remembers_as_many_adapters_as_it_holds(places: int, names: list[str]) -> None:
    work = DispatchedWork()

    sent = [Dispatch(endpoint_of().id, work, 1, name, places) for name in names]
    for entry in sent:
        entry.over()

    latest = dict.fromkeys(reversed([name for name in names if 0 < len(name) <= 256]))
    assert list(reversed(work.recent_adapters)) == list(latest)[:places]
    assert work.adapters == {}
    assert (work.requests, work.waiting_tokens) == (0, 0)
