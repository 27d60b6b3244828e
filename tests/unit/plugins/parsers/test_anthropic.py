"""Bodies of the Anthropic Messages API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.framework.errors import ErrorCode, Rejection
from epp.framework.parsed_request import ParsedRequest
from epp.plugins.parsers.anthropic import AnthropicParser

SAMPLES = Path(__file__).parents[3] / "samples" / "requests"
NO_MESSAGE = "invalid messages request: must have at least one message"
BROKEN = "error unmarshaling request body: "
WRONG = "error parsing messages request: "

USER = {"role": "user", "content": "a"}


def parsed(body: bytes | dict[str, Any], path: str = "/v1/messages") -> ParsedRequest:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return AnthropicParser().parse_request(path, content)


def refusal(body: bytes | dict[str, Any], path: str = "/v1/messages") -> str:
    with pytest.raises(Rejection) as caught:
        parsed(body, path)
    assert caught.value.code is ErrorCode.BAD_REQUEST
    return caught.value.message


def test_model_stream_and_cap_are_read() -> None:
    found = parsed({"model": "m", "max_tokens": 5, "stream": True, "messages": [USER]})

    assert found == ParsedRequest(
        api="messages",
        model="m",
        stream=True,
        max_output_tokens=5,
        is_json_object=True,
        read_prompts=found.read_prompts,
    )


@pytest.mark.parametrize("body", [b"null", b"{}", b'{"messages":[]}', b'{"messages":null}'])
def test_a_request_needs_a_message(body: bytes) -> None:
    assert refusal(body) == NO_MESSAGE


@pytest.mark.parametrize("body", [b"", b"[1]", b"x", b'{"messages":5,', b"\xff"])
def test_what_is_no_json_object_is_refused_with_the_decoders_words(body: bytes) -> None:
    assert refusal(body).startswith(BROKEN)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"messages": "a"}, "$.messages"),
        ({"messages": ["a"]}, "$.messages[0]"),
        ({"messages": [USER, {"role": 5}]}, "$.messages[1].role"),
        ({"messages": [{"content": 5}]}, "$.messages[0].content"),
        ({"messages": [{"content": ["a"]}]}, "$.messages[0].content"),
        ({"messages": [{"content": [{}, {"text": 5}]}]}, "$.messages[0].content[1].text"),
        (
            {"messages": [{"content": [{"source": {"data": []}}]}]},
            "$.messages[0].content[0].source.data",
        ),
        ({"messages": [USER], "system": 5}, "$.system"),
        ({"messages": [USER], "system": [{"text": {}}]}, "$.system[0].text"),
        ({"messages": [USER], "tools": [{"name": 5}]}, "$.tools[0].name"),
        ({"messages": [USER], "tools": [{"description": []}]}, "$.tools[0].description"),
        ({"messages": [USER], "cache_salt": 5}, "$.cache_salt"),
    ],
)
def test_a_member_of_another_type_is_named(body: dict[str, Any], where: str) -> None:
    text = refusal(body)

    assert text.startswith(WRONG)
    assert text.endswith(f" - at `{where}`")


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        [{"type": "text", "text": "a"}],
        [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}],
        [{"type": "image", "source": {"url": "http://a"}}],
        [{"type": "tool_use", "id": "1", "name": "f", "input": {"b": 1, "a": 2}}],
        [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "a"}]}],
        [{"type": "thinking", "thinking": "hm", "signature": "x"}, None],
    ],
)
def test_blocks_of_every_kind_are_accepted(content: object) -> None:
    assert parsed({"messages": [{"role": "user", "content": content}]}).api == "messages"


@pytest.mark.parametrize("body", [b"{}", b"", b"no json"])
def test_counting_tokens_goes_through_unread(body: bytes) -> None:
    found = parsed(body, "/v1/messages/count_tokens")

    assert found == ParsedRequest(api="", skip_response_processing=True)


def test_other_paths_are_unsupported() -> None:
    assert refusal(b"{}", "/v1/mymessages") == "unsupported API endpoint: /v1/mymessages"


@pytest.mark.parametrize("name", ["anthropic_basic_stream", "anthropic_tools"])
def test_samples_are_read(name: str) -> None:
    content = (SAMPLES / f"{name}.json").read_bytes()
    body = json.loads(content)

    found = parsed(content)

    assert found.model == body["model"]
    assert found.stream is body.get("stream", False)
    assert found.max_output_tokens == body["max_tokens"]


@given(st.binary())
def test_any_bytes_are_read_or_refused(noise: bytes) -> None:
    for body in (noise, b'{"messages":[' + noise + b"]}", b'{"system":' + noise):
        try:
            parsed(body)
        except Rejection as rejection:
            assert rejection.code is ErrorCode.BAD_REQUEST  # noqa: PT017 - it need not be raised
