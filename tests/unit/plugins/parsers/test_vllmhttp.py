"""Bodies of vLLM's generate API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.framework.errors import ErrorCode, Rejection
from epp.framework.parsed_request import MultiModalFeature, ParsedRequest, PromptText
from epp.plugins.parsers.token_ids import SLICE_BYTES
from epp.plugins.parsers.vllmhttp import MAX_FEATURES_BYTES, VllmHttpParser

INVALID = "invalid generate request: "


def parsed(body: bytes | dict[str, Any]) -> ParsedRequest:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return VllmHttpParser().parse_request("/inference/v1/generate", content)


def refusal(body: bytes | dict[str, Any]) -> str:
    with pytest.raises(Rejection) as caught:
        parsed(body)
    assert caught.value.code is ErrorCode.BAD_REQUEST
    return caught.value.message


def prompt(body: dict[str, Any]) -> PromptText:
    found = parsed(body)
    assert found.read_prompts is not None
    (only,) = found.read_prompts()
    return only


def test_members_are_read() -> None:
    found = parsed(
        {
            "model": "m",
            "stream": True,
            "token_ids": [1],
            "cache_salt": "s",
            "sampling_params": {"max_tokens": 7, "max_new_tokens": 8},
        }
    )

    assert found == ParsedRequest(
        api="generate",
        model="m",
        stream=True,
        max_output_tokens=7,
        is_json_object=True,
        cache_salt="s",
        read_prompts=found.read_prompts,
    )


def test_token_ids_are_the_prompt() -> None:
    assert prompt({"token_ids": [1, 2**32 - 1]}).token_ids == b"\x01\0\0\0\xff\xff\xff\xff"


@pytest.mark.parametrize("body", [{}, {"token_ids": None}, {"token_ids": []}, {"token_ids": "1"}])
def test_token_ids_are_required(body: dict[str, Any]) -> None:
    assert refusal(body) == f"{INVALID}must have non-empty token_ids field"


@pytest.mark.parametrize(
    ("ids", "fault"),
    [
        ([1, -1], "[1]: invalid value -1"),
        ([2**32], "[0]: invalid value 4294967296"),
        ([1, 2, 1.5], "[2]: invalid value 1.5"),
        ([True], "[0]: invalid value true"),
        ([1, "secret"], "[1]: invalid value of type string"),
        ([[1]], "[0]: invalid value of type array"),
        ([1] * SLICE_BYTES + [-1], ": invalid value"),
    ],
)
def test_what_is_no_token_id_is_named_but_texts_are_not_quoted(
    ids: list[object], fault: str
) -> None:
    assert refusal({"token_ids": ids}) == f"{INVALID}token_ids{fault}"


def test_of_a_value_that_is_no_token_id_logs_have_the_place_alone() -> None:
    with pytest.raises(Rejection) as caught:
        parsed({"token_ids": [1, 73.25]})

    assert caught.value.log_message == f"{INVALID}token_ids[1]: invalid value"


@pytest.mark.parametrize("body", [b"", b"[1]", b"{"])
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    assert refusal(body).startswith("error unmarshaling request body: ")


def test_media_are_told_by_the_client() -> None:
    features = {
        "mm_hashes": {"image": ["aa", "bb"], "audio": []},
        "mm_placeholders": {
            "image": [{"offset": 9, "length": 2}, {"offset": 1, "length": 3}, None],
            "audio": [{"offset": 5, "length": 1}],
            "video": None,
        },
    }

    assert prompt({"token_ids": [1], "features": features}).features == (
        MultiModalFeature("image", "bb", 1, 3),
        MultiModalFeature("audio", "", 5, 1),
        MultiModalFeature("image", "aa", 9, 2),
    )


@pytest.mark.parametrize(
    "features",
    [
        None,
        5,
        {"mm_placeholders": 5},
        {"mm_placeholders": {"image": [{"offset": "a"}]}},
        {"mm_hashes": {"image": ["a" * MAX_FEATURES_BYTES]}},
    ],
)
def test_features_of_another_shape_or_too_long_are_none(features: object) -> None:
    assert prompt({"token_ids": [1], "features": features}).features == ()


@pytest.mark.parametrize("sampling", [None, 5, [], {"max_tokens": "7"}, {}])
def test_without_a_readable_cap_there_is_none(sampling: object) -> None:
    assert parsed({"token_ids": [1], "sampling_params": sampling}).max_output_tokens is None


@given(st.binary())
def test_any_bytes_are_read_or_refused(noise: bytes) -> None:
    for body in (noise, b'{"token_ids":[1],"features":' + noise + b"}", b'{"token_ids":[' + noise):
        try:
            found = parsed(body)
        except Rejection as rejection:
            assert rejection.code is ErrorCode.BAD_REQUEST  # noqa: PT017 - it need not be raised
        else:
            assert found.read_prompts is not None
            assert found.read_prompts() == found.read_prompts()
