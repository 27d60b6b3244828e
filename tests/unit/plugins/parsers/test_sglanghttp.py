"""Bodies and responses of SGLang's generate API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.framework.errors import ErrorCode, Rejection
from epp.framework.parsed_request import ParsedRequest
from epp.framework.usage import Usage
from epp.plugins.parsers.sglanghttp import SglangHttpParser

SAMPLE = Path(__file__).parents[3] / "samples" / "requests" / "sglang_generate.json"
INVALID = "invalid generate request: "
NO_LIST = f"{INVALID}input_ids must be an array of uint32 integers"


def parsed(body: bytes | dict[str, Any], path: str = "/generate") -> ParsedRequest:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return SglangHttpParser().parse_request(path, content)


def refusal(body: bytes | dict[str, Any], path: str = "/generate") -> str:
    with pytest.raises(Rejection) as caught:
        parsed(body, path)
    assert caught.value.code is ErrorCode.BAD_REQUEST
    return caught.value.message


def usage(body: bytes, *, streaming: bool) -> Usage | None:
    reader = SglangHttpParser().response_reader(streaming=streaming)
    for position in range(0, len(body), 7):
        reader.feed(body[position : position + 7])
    return reader.finish()


def test_the_sample_is_read_and_has_no_model() -> None:
    found = parsed(SAMPLE.read_bytes())

    assert found == ParsedRequest(
        api="generate", stream=True, max_output_tokens=32, read_prompts=found.read_prompts
    )
    assert found.read_prompts is not None
    (prompt,) = found.read_prompts()
    assert prompt.token_ids is not None
    assert prompt.token_ids[:8] == b"\x01\0\0\0\x32\x01\0\0"
    assert len(prompt.token_ids) == 4 * 8


def test_the_extra_key_is_the_cache_salt() -> None:
    assert parsed({"input_ids": [1], "extra_key": "tenant"}).cache_salt == "tenant"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, f"{INVALID}input_ids must be provided"),
        ({"text": "a"}, f"{INVALID}input_ids must be provided"),
        ({"input_ids": None}, f"{INVALID}input_ids must be provided"),
        ({"input_ids": 5}, NO_LIST),
        ({"input_ids": [[1], [2]]}, NO_LIST),
        ({"input_ids": [-1]}, NO_LIST),
        ({"input_ids": ["1"]}, NO_LIST),
        ({"input_ids": []}, f"{INVALID}input_ids cannot be empty"),
        (
            {"input_ids": [1], "extra_key": ["a"]},
            "unsupported generate request: extra_key must be a string",
        ),
    ],
)
def test_one_list_of_token_ids_is_required(body: dict[str, Any], text: str) -> None:
    assert refusal(body) == text


@pytest.mark.parametrize("path", ["/v1/generate", "/generate/x", "generate"])
def test_other_paths_are_unsupported(path: str) -> None:
    assert refusal({"input_ids": [1]}, path) == f"unsupported path: {path}"


def test_blanks_and_slashes_after_the_path_do_not_matter() -> None:
    assert parsed({"input_ids": [1]}, "/generate/ ").api == "generate"


def test_usage_of_a_document_is_in_its_meta_info() -> None:
    body = b'{"text":"a","meta_info":{"prompt_tokens":5,"completion_tokens":2,"cached_tokens":4}}'

    found = usage(body, streaming=False)

    assert found == Usage(prompt_tokens=5, completion_tokens=2, cached_tokens=4, total_tokens=7)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"text":"meta_info"}', b'{"usage":{"prompt_tokens":5}}']
)
def test_a_document_without_meta_info_has_no_usage(body: bytes) -> None:
    assert usage(body, streaming=False) is None


def test_usage_of_a_stream_is_in_the_event_that_ends_it() -> None:
    events = [
        {"meta_info": {"prompt_tokens": 5, "completion_tokens": 1, "finish_reason": None}},
        {"meta_info": {"prompt_tokens": 5, "completion_tokens": 3, "finish_reason": {"type": "x"}}},
        {"meta_info": {"prompt_tokens": 9, "completion_tokens": 9}},
        {"meta_info": 5},
    ]
    stream = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)

    found = usage(stream + b"data: [DONE]\n\n", streaming=True)

    assert found is not None
    assert (found.prompt_tokens, found.completion_tokens) == (5, 3)


def test_a_stream_that_was_cut_has_no_usage() -> None:
    stream = b'data: {"meta_info":{"prompt_tokens":5,"finish_reason":null}}\n\n'

    assert usage(stream, streaming=True) is None


@given(st.binary())
def test_any_bytes_are_read_or_refused(noise: bytes) -> None:
    for body in (noise, b'{"input_ids":[1],"extra_key":' + noise, b'{"input_ids":[' + noise):
        try:
            parsed(body)
        except Rejection as rejection:
            assert rejection.code is ErrorCode.BAD_REQUEST  # noqa: PT017 - it need not be raised
