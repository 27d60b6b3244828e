"""Pseudo-tokens of texts and media."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.framework.data_types import Prompt
from epp.framework.headers import Headers
from epp.framework.parsed_request import Media, MultiModalFeature, PromptText
from epp.plugins.producers.media_estimate import MAX_MEDIA_TOKENS, MediaEstimate
from epp.plugins.producers.media_parameters import Estimate
from epp.plugins.producers.pseudo_tokens import (
    MAX_KEPT_BYTES,
    MAX_MEDIA_PER_REQUEST,
    MAX_MEDIA_TOKENS_PER_REQUEST,
    PseudoTokens,
)

PIECE = st.binary(max_size=9) | st.builds(
    Media, st.sampled_from(["image", "audio", "file"]), st.binary(max_size=9)
)


def pseudo_tokens(**estimate: object) -> PseudoTokens:
    return PseudoTokens(MediaEstimate(Estimate.model_validate(estimate)), Headers())


def prompt(*pieces: bytes | memoryview | Media) -> Prompt:
    (only,) = pseudo_tokens().prompts([PromptText(pieces)])
    return only


@pytest.mark.parametrize(
    ("pieces", "tokens"),
    [
        ((), b""),
        ((b"",), b""),
        ((b"a",), b"a\0\0\0"),
        ((b"ab", memoryview(b"cd")), b"abcd"),
        ((b"abc", b"de"), b"abcde\0\0\0"),
    ],
)
def test_text_is_padded_once_at_its_end(
    pieces: tuple[bytes | memoryview, ...], tokens: bytes
) -> None:
    assert prompt(*pieces).tokens == tokens


def test_token_ids_stay_as_they_are_with_what_the_client_says_of_media() -> None:
    features = (MultiModalFeature("image", "aa", 0, 1),)
    given_ids = b"\x01\0\0\0"

    (found,) = pseudo_tokens().prompts([PromptText(token_ids=given_ids, features=features)])

    assert found.tokens is given_ids
    assert found.features == features


def test_the_same_picture_has_the_same_hash_wherever_it_stands() -> None:
    picture = Media("image", b"https://i")

    first, second = prompt(picture, b"abc", picture).features

    assert (first.hash, first.length) == (second.hash, second.length)
    assert (first.offset, second.offset) == (0, first.length + 1)


def test_media_of_a_request_are_bounded_but_each_takes_part() -> None:
    estimate = pseudo_tokens(image={"mode": "static", "static": {"staticToken": 2**40}})
    text = PromptText([Media("image", b"%d" % number) for number in range(5)])

    first, second = estimate.prompts([text, text])

    lengths = [feature.length for feature in first.features + second.features]
    assert lengths[:3] == [MAX_MEDIA_TOKENS, MAX_MEDIA_TOKENS, 3]
    assert lengths[3:] == [1] * 7
    assert first.count + second.count == MAX_MEDIA_TOKENS_PER_REQUEST + 10


def test_of_endless_media_each_is_at_least_a_token() -> None:
    pictures = [Media("image", b"%d" % number) for number in range(MAX_MEDIA_PER_REQUEST + 3)]

    found, other = prompt(*pictures), prompt(*pictures[:-1], Media("image", b"other"))

    assert len(found.features) == MAX_MEDIA_PER_REQUEST
    assert found.count == sum(feature.length for feature in found.features) + 3
    assert found.tokens[:-4] == other.tokens[:-4]
    assert found.tokens != other.tokens


def test_of_more_tokens_than_models_read_the_first_are_kept_and_all_are_counted() -> None:
    piece = b"word" * (MAX_KEPT_BYTES // 8 - 1)
    texts = [PromptText([piece]), PromptText([piece, memoryview(piece), b"x"]), PromptText([piece])]

    first, second, third = pseudo_tokens().prompts(texts)

    assert (first.tokens, first.omitted_tokens) == (piece, 0)
    assert len(first.tokens) + len(second.tokens) == MAX_KEPT_BYTES
    assert (piece + piece).startswith(bytes(second.tokens))
    assert second.count == -(-(2 * len(piece) + 1) // 4)
    assert (third.tokens, third.count) == (b"", len(piece) // 4)


@given(st.lists(PIECE), st.lists(PIECE))
def test_tokens_are_whole_and_keep_their_prefix(
    pieces: list[bytes | Media], more: list[bytes | Media]
) -> None:
    before, after = prompt(*pieces), prompt(*pieces, *more)

    whole = sum(map(len, [bytes(before.tokens).rstrip(b"\0")])) // 4 * 4
    assert len(before.tokens) % 4 == 0
    assert after.tokens[:whole] == before.tokens[:whole]
    assert after.features[: len(before.features)] == before.features


@given(st.lists(PIECE))
def test_features_stand_where_their_runs_are(pieces: list[bytes | Media]) -> None:
    found = prompt(*pieces)

    assert len(found.features) == sum(isinstance(piece, Media) for piece in pieces)
    for feature in found.features:
        low = int(feature.hash, 16) & 0xFFFFFFFF
        run = found.tokens[feature.offset * 4 : (feature.offset + feature.length) * 4]
        assert run == low.to_bytes(4, "little") * feature.length
