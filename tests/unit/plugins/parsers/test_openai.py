"""Bodies of the OpenAI APIs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.framework.errors import ErrorCode, Rejection
from epp.framework.parsed_request import ParsedRequest
from epp.plugins.parsers.json_values import MAX_CONTAINERS
from epp.plugins.parsers.openai import OpenAIParser

SAMPLES = Path(__file__).parents[3] / "samples" / "requests"

COMPLETIONS = "invalid completions request: must have prompt field"
CHAT = "invalid chat completions request: must have valid messages field"
RESPONSES = "invalid responses request: must have input field"
CONVERSATIONS = "invalid conversations request: must have items field"
EMBEDDINGS = "invalid embeddings request: must have input field"
IMAGES = "invalid images generations request: must have prompt field"
BROKEN = "error unmarshaling request bodyMap: "

USER = {"role": "user", "content": "a"}


def parsed(path: str, body: bytes | dict[str, Any]) -> ParsedRequest:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return OpenAIParser().parse_request(path, content)


def refusal(path: str, body: bytes | dict[str, Any]) -> str:
    with pytest.raises(Rejection) as caught:
        parsed(path, body)
    assert caught.value.code is ErrorCode.BAD_REQUEST
    return caught.value.message


@pytest.mark.parametrize(
    ("path", "body", "api"),
    [
        ("/v1/completions", {"prompt": "a"}, "completions"),
        ("/v1/completions/", {"prompt": "a"}, "completions"),
        ("completions", {"prompt": "a"}, "completions"),
        ("/v1/completions/render", {"prompt": "a"}, "completions"),
        ("/v1/chat/completions", {"messages": [USER]}, "chat/completions"),
        ("/v1/chat/completions/render", {"messages": [USER]}, "chat/completions"),
        ("/v1/responses", {"input": "a"}, "responses"),
        ("/v1/conversations", {"items": [{}]}, "conversations"),
        ("/v1/embeddings", {"input": "a"}, "embeddings"),
        ("/v1/images/generations", {"prompt": "a"}, "images/generations"),
        ("/elsewhere", {"prompt": "a"}, "completions"),
    ],
)
def test_the_api_is_what_the_path_ends_with(path: str, body: dict[str, Any], api: str) -> None:
    assert parsed(path, body).api == api


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/embeddings"])
@pytest.mark.parametrize(
    "prompt",
    ["a", ["a"], ["a", ""], ["[1]"], [1, 2], [0, 2**32 - 1], [[1, 2], [3]], ['"', "\\", "]"]],
)
def test_texts_token_ids_and_lists_of_them_are_prompts(path: str, prompt: object) -> None:
    assert parsed(path, {"prompt": prompt, "input": prompt}).is_json_object


@pytest.mark.parametrize(
    ("path", "text"), [("/v1/completions", COMPLETIONS), ("/v1/embeddings", EMBEDDINGS)]
)
@pytest.mark.parametrize(
    "prompt",
    ["", [], [[]], [1, "a"], ["a", 1], ["a", ["b"]], [[1], 2], [-1], [2**32], [1.5], [None], 5,
     None, True, {"a": 1}, [["a"]], [{}]],
)  # fmt: skip
def test_other_values_are_no_prompts(path: str, text: str, prompt: object) -> None:
    assert refusal(path, {"model": "m", "prompt": prompt, "input": prompt}) == text


def test_blanks_before_the_first_item_of_a_prompt_do_not_matter() -> None:
    assert parsed("/v1/completions", b'{"prompt":[' + b" " * 100 + b"[1] , [2]]}").api


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        ("/v1/completions", {"model": "m"}, COMPLETIONS),
        ("/v1/completions", {"PROMPT": "a"}, COMPLETIONS),
        ("/v1/chat/completions", {"model": "m", "prompt": "a"}, CHAT),
        ("/v1/chat/completions", {"messages": []}, CHAT),
        ("/v1/chat/completions", {"messages": None}, CHAT),
        ("/v1/chat/completions", {"messages": "a"}, CHAT),
        ("/v1/chat/completions", {"messages": ["a"]}, CHAT),
        ("/v1/responses", {}, RESPONSES),
        ("/v1/responses", {"input": None}, RESPONSES),
        ("/v1/conversations", {"items": []}, CONVERSATIONS),
        ("/v1/conversations", {"items": {"a": 1}}, CONVERSATIONS),
        ("/v1/conversations", {}, CONVERSATIONS),
        ("/v1/embeddings", {}, EMBEDDINGS),
        ("/v1/images/generations", {"prompt": ""}, IMAGES),
        ("/v1/images/generations", {"prompt": ["a"]}, IMAGES),
        ("/v1/chat/completions", b"null", CHAT),
        ("/v1/completions", b" null ", COMPLETIONS),
    ],
)
def test_a_body_without_what_the_api_needs_is_refused(
    path: str, body: bytes | dict[str, Any], text: str
) -> None:
    assert refusal(path, body) == text


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool"},
        {"role": "user", "content": []},
        {"role": "user", "content": [{"type": "text", "text": "a"}, None]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]},
        {"role": "user", "content": [{"type": "video_url", "video_url": {"url": "http://v"}}]},
        {"content": [{"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}]},
        {"content": [{"type": "file", "file": {"file_id": 1}}]},
        None,
    ],
)
def test_structured_and_missing_content_is_accepted(message: object) -> None:
    assert parsed("/v1/chat/completions", {"messages": [message]}).api == "chat/completions"


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": 5}]},
        {"messages": [{"content": 5}]},
        {"messages": [{"content": {}}]},
        {"messages": [{"content": True}]},
        {"messages": [{"content": ["a"]}]},
        {"messages": [{"content": [{"text": 5}]}]},
        {"messages": [{"content": [{"type": []}]}]},
        {"messages": [{"content": [{"image_url": {"url": 5}}]}]},
        {"messages": [{"content": [{"image_url": "a"}]}]},
        {"messages": [{"content": [{"input_audio": {"data": {}}}]}]},
        {"messages": [{"content": [{"video_url": {"url": []}}]}]},
        {"messages": [{"tool_calls": {}}]},
        {"messages": [USER], "tools": {}},
        {"messages": [USER], "documents": "a"},
        {"messages": [USER], "chat_template": 5},
        {"messages": [USER], "chat_template_kwargs": []},
        {"messages": [USER], "add_generation_prompt": "yes"},
        {"messages": [USER], "continue_final_message": 1},
        {"messages": [USER], "return_assistant_tokens_mask": {}},
        {"messages": [USER], "cache_salt": 5},
    ],
)
def test_members_of_a_chat_must_have_their_types(body: dict[str, Any]) -> None:
    assert refusal("/v1/chat/completions", body) == CHAT


@pytest.mark.parametrize(
    "body",
    [b"", b"[1]", b"no healthy upstream", b"5", b'"a"', b'{"prompt":"a"', b'{"prompt":"a"} x',
     b"\x1f\x8b\x08\x00", b"\xff\xfe", b'{"a":' + b"[" * 100_000],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_what_is_no_json_object_is_refused_with_the_decoders_words(path: str, body: bytes) -> None:
    text = refusal(path, body)

    assert text.startswith(BROKEN)
    assert len(text) > len(BROKEN)


def test_broken_json_counts_before_wrong_types() -> None:
    assert refusal("/v1/chat/completions", b'{"messages":5,').startswith(BROKEN)
    assert refusal("/v1/chat/completions", b'{"messages":5}') == CHAT


def test_a_body_of_countless_objects_is_refused() -> None:
    body = b'{"prompt":"a","x":[' + b"{}," * MAX_CONTAINERS + b"{}]}"

    assert refusal("/v1/completions", body) == (
        f"{BROKEN}{MAX_CONTAINERS + 3} objects and arrays, allowed are {MAX_CONTAINERS}"
    )


@given(st.sampled_from(["", '{"prompt":', '{"messages":[{"content":"']), st.sampled_from("]}x"))
def test_errors_never_quote_the_body(beginning: str, ending: str) -> None:
    body = f'{beginning}marker-1234{ending}"'.encode()

    for path in ("/v1/completions", "/v1/chat/completions"):
        assert "marker" not in refusal(path, body)


@pytest.mark.parametrize(
    ("member", "model"),
    [
        ('"model":"m",', "m"),
        ('"model":"\\u00fc/\\n",', "ü/\n"),
        ('"model":"",', ""),
        ('"model":5,', ""),
        ('"model":null,', ""),
        ('"model":{"model":"m"},', ""),
        ('"model":"a","model":"b",', "b"),
        ('"MODEL":"m",', ""),
        ("", ""),
    ],
)
def test_the_model_counts_if_it_is_a_text(member: str, model: str) -> None:
    found = parsed("/v1/completions", f'{{{member}"prompt":"a"}}'.encode())

    assert found.model == model


@pytest.mark.parametrize(
    ("value", "stream"),
    [("true", True), ("false", False), ('"true"', False), ("1", False), ("null", False)],
)
def test_only_true_asks_for_a_stream(value: str, stream: bool) -> None:
    assert parsed("/v1/completions", f'{{"stream":{value},"prompt":"a"}}'.encode()).stream is stream


@pytest.mark.parametrize(
    ("path", "members", "cap"),
    [
        ("/v1/completions", '"max_tokens":7', 7),
        ("/v1/completions", '"max_completion_tokens":7', None),
        ("/v1/completions", '"max_tokens":0', 0),
        ("/v1/completions", '"max_tokens":7.0', 7),
        ("/v1/completions", '"max_tokens":7.5', None),
        ("/v1/completions", '"max_tokens":-7', None),
        ("/v1/completions", '"max_tokens":"7"', None),
        ("/v1/completions", '"max_tokens":1e999', None),
        ("/v1/completions", '"max_tokens":null', None),
        ("/v1/chat/completions", '"max_tokens":7,"max_completion_tokens":8', 8),
        ("/v1/chat/completions", '"max_tokens":7,"max_completion_tokens":-8', 7),
        ("/v1/responses", '"max_output_tokens":9,"max_tokens":7', 9),
        ("/v1/responses", '"max_tokens":7', None),
        ("/v1/embeddings", '"max_tokens":7', None),
    ],
)
def test_the_cap_is_the_first_whole_number_of_the_apis_keys(
    path: str, members: str, cap: int | None
) -> None:
    body = f'{{{members},"prompt":"a","input":"a","messages":[{{}}]}}'.encode()

    assert parsed(path, body).max_output_tokens == cap


@pytest.mark.parametrize(
    ("sample", "path"),
    [
        ("completions_*", "/v1/completions"),
        ("chat_*", "/v1/chat/completions"),
        ("responses_*", "/v1/responses"),
        ("embeddings_*", "/v1/embeddings"),
        ("images_*", "/v1/images/generations"),
    ],
)
def test_samples_are_read(sample: str, path: str) -> None:
    files = sorted(SAMPLES.glob(f"{sample}.json"))
    assert files
    for file in files:
        body = json.loads(file.read_bytes())

        found = parsed(path, file.read_bytes())

        assert found.model == body["model"]
        assert found.stream is body.get("stream", False)


@given(st.binary())
def test_any_bytes_are_read_or_refused(noise: bytes) -> None:
    for body in (noise, b'{"prompt":"a","model":' + noise, b'{"messages":[' + noise + b"]}"):
        for path in ("/v1/completions", "/v1/chat/completions"):
            try:
                parsed(path, body)
            except Rejection as rejection:
                assert rejection.code is ErrorCode.BAD_REQUEST  # noqa: PT017 - it need not be raised


def test_it_reads_usage_of_documents_and_streams() -> None:
    parser = OpenAIParser()
    for streaming, body in ((False, b'{"usage":{"prompt_tokens":7}}'),
                            (True, b'data: {"usage":{"prompt_tokens":7}}\n\n')):  # fmt: skip
        reader = parser.response_reader(streaming=streaming)
        reader.feed(body)

        usage = reader.finish()

        assert usage is not None
        assert usage.prompt_tokens == 7
