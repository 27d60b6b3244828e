"""Who says that a stage is worth it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.framework.data_types import (
    PREFIX_MATCH,
    TOKENIZED_PROMPT,
    PrefixMatch,
    Prompt,
    TokenizedPrompt,
)
from epp.framework.parsed_request import MultiModalFeature
from epp.framework.request import InferenceRequest
from epp.plugins.profile_handlers.deciders import (
    AlwaysDisaggMultimodalDecider,
    AlwaysDisaggPdDecider,
    PrefixBasedPdDecider,
)
from epp.testing import FakeContext, built, endpoint_of, put, request_of

ENDPOINT = endpoint_of()
TOKENS = TOKENIZED_PROMPT.key(TOKENIZED_PROMPT.default_producer)


def request_with(
    tokens: int | None = None, cached_blocks: int | None = None, block: int = 64
) -> InferenceRequest:
    """A request of so many tokens, of which the endpoint holds so many blocks."""
    request = request_of()
    if tokens is not None:
        request.attributes[TOKENS] = TokenizedPrompt((Prompt(bytes(4 * tokens)),))
    if cached_blocks is not None:
        put(PREFIX_MATCH, request, {ENDPOINT: PrefixMatch(cached_blocks, 16, block)})
    return request


@pytest.mark.parametrize(
    ("cached_blocks", "wanted"), [(8, False), (7, True)], ids=["G33-no", "G33-yes"]
)
def test_prefill_is_worth_what_the_decode_endpoint_lacks(cached_blocks: int, wanted: bool) -> None:
    decider = built(PrefixBasedPdDecider, non_cached_tokens=512)

    assert decider.wants(request_with(1000, cached_blocks), ENDPOINT) is wanted


@pytest.mark.parametrize(
    ("parameters", "request_"),
    [
        ({}, request_with(1000, 0)),
        ({"non_cached_tokens": 512}, request_with(511, 0)),
        ({"non_cached_tokens": 512, "prompt_tokens": 1001}, request_with(1000, 0)),
        ({"non_cached_tokens": 512}, request_with(1000, None)),
        ({"non_cached_tokens": 512}, request_with(None, 0)),
        ({"non_cached_tokens": 1}, request_with(100, 2)),
    ],
    ids=["off", "short", "below the gate", "no match", "no tokens", "more cached than there is"],
)
def test_reasons_against_prefill(parameters: dict[str, int], request_: InferenceRequest) -> None:
    assert built(PrefixBasedPdDecider, **parameters).wants(request_, ENDPOINT) is False


def test_without_an_endpoint_there_is_nothing_to_compare() -> None:
    decider = built(PrefixBasedPdDecider, non_cached_tokens=1)

    assert decider.wants(request_with(1000, 0), None) is False


def test_the_prefix_producer_can_be_chosen() -> None:
    context = FakeContext()
    decider = built(
        PrefixBasedPdDecider,
        context,
        non_cached_tokens=10,
        prefix_match_info_producer_name="precise",
    )
    request = request_with(100)
    put(PREFIX_MATCH, request, {ENDPOINT: PrefixMatch(0, 1, 64)}, producer="precise")

    assert decider.wants(request, ENDPOINT)


@given(
    tokens=st.integers(0, 3000),
    cached=st.integers(0, 40),
    least=st.integers(0, 2000),
    gate=st.integers(0, 2000),
)
def test_prefill_needs_enough_tokens_that_are_not_cached(
    tokens: int, cached: int, least: int, gate: int
) -> None:
    decider = built(PrefixBasedPdDecider, non_cached_tokens=least, prompt_tokens=gate)

    wanted = decider.wants(request_with(tokens, cached), ENDPOINT)

    assert wanted == (least > 0 and tokens >= gate and tokens - 64 * cached >= least)


def test_always_is_always() -> None:
    assert built(AlwaysDisaggPdDecider).wants(request_of(), None)


@pytest.mark.parametrize("has_image", [True, False])
def test_multimodal_prompts_are_encoded_elsewhere(has_image: bool) -> None:
    features = (MultiModalFeature("image", "h", 0, 1),) if has_image else ()
    request = request_of()
    request.attributes[TOKENS] = TokenizedPrompt((Prompt(b""), Prompt(b"", features)))

    assert built(AlwaysDisaggMultimodalDecider).wants(request, None) is has_image


def test_a_prompt_that_nobody_could_read_is_not_multimodal() -> None:
    assert not built(AlwaysDisaggMultimodalDecider).wants(request_of(), None)
