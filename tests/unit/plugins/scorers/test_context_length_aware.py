"""`context-length-aware`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from epp.framework.data import Output
from epp.framework.data_types import TOKENIZED_PROMPT, Prompt, TokenizedPrompt
from epp.framework.endpoint import Endpoint
from epp.framework.request import InferenceRequest
from epp.plugins.scorers.context_length_aware import ContextLengthAware
from epp.testing import built, endpoint_of, request_of

LABEL = "llm-d.ai/context-length-range"


def labelled(*ranges: str | None, label: str = LABEL) -> list[Endpoint]:
    return [
        endpoint_of(f"e{index}", labels={} if value is None else {label: value})
        for index, value in enumerate(ranges)
    ]


def prompt_of(*tokens: int) -> InferenceRequest:
    request = request_of()
    prompts = tuple(Prompt(bytes(4 * count)) for count in tokens)
    Output(TOKENIZED_PROMPT, "token-producer").put(request, TokenizedPrompt(prompts))
    return request


@pytest.mark.parametrize(
    ("tokens", "ranges", "expected"),
    [
        pytest.param(
            1500,
            ["0-2048", "2048-8192", "0-131072", None, "bad"],
            [0.762898, 0.193798, 0.542331, 0.5, 0],
            id="G19",
        ),
        pytest.param(
            10000,
            ["0-2048", "2048-8192", "0-131072", "10000-10000"],
            [0.033512, 0.106838, 0.528712, 1],
            id="G20",
        ),
    ],
)
def test_scores_are_the_references(
    tokens: int, ranges: list[str | None], expected: list[float]
) -> None:
    scores = built(ContextLengthAware).score(prompt_of(tokens), labelled(*ranges))

    assert scores == pytest.approx(expected, abs=5e-7)


def test_the_prompts_of_a_request_count_together() -> None:
    endpoints = labelled("0-100", "101-200")

    kept = built(ContextLengthAware, enable_filtering=True).filter(prompt_of(60, 60), endpoints)

    assert kept == endpoints[1:]


def test_without_tokens_the_prompt_counts_as_empty() -> None:
    endpoints = labelled("0-100", "101-200")

    kept = built(ContextLengthAware, enable_filtering=True).filter(request_of(), endpoints)

    assert kept == endpoints[:1]


@pytest.mark.parametrize(
    "value",
    ["", "5", "a-b", "9-1", "-5-9", "1-2-3", "1_0-20", "\u0661-\u0662", "1.0-2", "1-" + "9" * 5000],
)
def test_a_label_that_is_no_range_drops_the_endpoint_and_scores_0(value: str) -> None:
    plugin = built(ContextLengthAware, enable_filtering=True)
    endpoints = labelled(value)

    assert plugin.filter(prompt_of(5), endpoints) == []
    assert plugin.score(prompt_of(5), endpoints) == [0]


@pytest.mark.parametrize("value", ["5-5", " 5 - 5 ", "+5-+5", "005-5"])
def test_a_range_holds_both_of_its_ends(value: str) -> None:
    plugin = built(ContextLengthAware, enable_filtering=True)
    endpoints = labelled(value)

    assert plugin.filter(prompt_of(5), endpoints) == endpoints
    assert plugin.score(prompt_of(5), endpoints) == [1]


def test_an_endpoint_without_the_label_serves_every_prompt() -> None:
    endpoints = labelled(None)

    assert built(ContextLengthAware, enable_filtering=True).filter(prompt_of(9), endpoints) == (
        endpoints
    )


def test_nothing_is_filtered_unless_asked_for() -> None:
    endpoints = labelled("0-1", "bad")

    assert built(ContextLengthAware).filter(prompt_of(9), endpoints) == endpoints


def test_the_label_can_be_chosen() -> None:
    endpoints = labelled("9-9", label="range")

    assert built(ContextLengthAware, label="range").score(prompt_of(9), endpoints) == [1]


def test_an_empty_label_name_is_refused() -> None:
    with pytest.raises(ValidationError, match="label"):
        built(ContextLengthAware, label="")


@given(st.integers(0, 3000), st.integers(0, 3000), st.integers(0, 3000))
def test_an_endpoint_in_range_beats_every_one_out_of_range(one: int, two: int, tokens: int) -> None:
    bounds = sorted((one, two))
    endpoints = labelled("{}-{}".format(*bounds))

    [score] = built(ContextLengthAware).score(prompt_of(tokens), endpoints)

    assert (score > 0.3) == (bounds[0] <= tokens <= bounds[1])
