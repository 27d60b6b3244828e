"""Chains of block hashes, as the reference computes them."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.framework.data_types import Prompt
from epp.plugins.producers.block_hashes import NO_LIMIT, block_chains

MODEL = "meta-llama/Llama-3.1-8B"


def prompt_of(tokens: range | list[int]) -> Prompt:
    return Prompt(pack(f"<{len(tokens)}I", *tokens))


def chains_of(
    *prompts: Prompt, model: str = MODEL, salt: str = "", limit: int = NO_LIMIT
) -> list[list[int]]:
    return block_chains(model, salt, prompts, block_tokens=64, max_blocks=limit)


@pytest.mark.parametrize(
    ("salt", "limit", "expected"),
    [
        pytest.param(
            "",
            NO_LIMIT,
            [
                6702914860138889819,
                11085201865441641645,
                5573589506965797749,
                12297967615690896285,
            ],
            id="G34",
        ),
        pytest.param("tenant-a", 2, [8191418976736581117, 10223180213734677716], id="G35"),
    ],
)
def test_chains_are_those_of_the_reference(salt: str, limit: int, expected: list[int]) -> None:
    assert chains_of(prompt_of(range(200)), salt=salt, limit=limit) == [expected]


def test_adapters_share_no_block_with_their_model() -> None:
    [of_model] = chains_of(prompt_of(range(200)))
    [of_adapter] = chains_of(prompt_of(range(200)), model="an-adapter")

    assert not set(of_model) & set(of_adapter)


def test_each_prompt_has_a_chain_of_its_own_and_the_limit_is_for_all() -> None:
    prompt = prompt_of(range(200))

    chains = chains_of(prompt, prompt, prompt, limit=6)

    assert [len(chain) for chain in chains] == [4, 2]
    assert chains[1] == chains[0][:2]


def test_an_empty_prompt_has_no_block() -> None:
    assert chains_of(prompt_of([])) == [[]]


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 400))
def test_prompts_share_blocks_up_to_where_they_differ(same: int, rest: int, other: int) -> None:
    common = list(range(same))

    [one] = chains_of(prompt_of([*common, *range(1000, 1000 + rest)]))
    [two] = chains_of(prompt_of([*common, *range(2000, 2000 + other)]))

    shared = [a == b for a, b in zip(one, two, strict=False)]
    full_blocks = same // 64
    assert shared[:full_blocks] == [True] * full_blocks
    if rest and other:
        assert not any(shared[full_blocks:])


@pytest.mark.parametrize("block_tokens", [1 << 40, 1 << 62, 1 << 64])
def test_a_prompt_that_is_shorter_than_any_block_is_one_block(block_tokens: int) -> None:
    prompt = prompt_of(range(64))

    chains = block_chains(MODEL, "", [prompt], block_tokens=block_tokens, max_blocks=NO_LIMIT)

    assert chains == chains_of(prompt)
