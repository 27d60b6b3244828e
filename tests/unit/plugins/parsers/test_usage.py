"""Token usage read from responses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.framework.usage import Usage
from epp.plugins.parsers.usage import JsonUsageReader, SseUsageReader
from epp.plugins.parsers.usage_sum import MAX_TOKENS
from tests.fakes.cuts import cuts

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 99) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["usage", "a", 'usage"']), inner, max_size=3)
    ),
    max_leaves=6,
)
COUNTS: st.SearchStrategy[object] = st.sampled_from([0, 3, "4", -1, None, True, [], 2.0])
BLOCKS = st.dictionaries(
    st.sampled_from(
        ["prompt_tokens", "completion_tokens", "total_tokens", "input_tokens", "output_tokens"]
    ),
    COUNTS,
)
EVENTS = st.lists(
    st.sampled_from(
        [
            b'data: {"choices":[{"delta":{"content":"\\"usage\\": {}"}}]}',
            b'data:{"usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8}}',
            b'data: {"usage":null}',
            b'data: {"type":"response.completed","response":{"usage":{"input_tokens":5}}}',
            b'data: {"message":{"usage":{"input_tokens":3,"cache_read_input_tokens":2}}}',
            b"data: [DONE]",
            b"data:[DONE]",
            b'data: "usage"',
            b"event: usage",
            b": comment data: x",
            b"",
        ]
    ),
    max_size=8,
)


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """An event stream, whole and cut anywhere."""
    ending = draw(st.sampled_from([b"\n", b"\r\n"]))
    text = ending.join(draw(EVENTS)) + draw(st.sampled_from([b"", b"\n", b"\r\n\r\n"]))
    return text, draw(cuts(text))


def usage_of(document: bytes | dict[str, Any]) -> Usage | None:
    reader = JsonUsageReader()
    reader.feed(document if isinstance(document, bytes) else json.dumps(document).encode())
    return reader.finish()


def read_stream(*chunks: bytes) -> tuple[Usage | None, int]:
    reader = SseUsageReader()
    for chunk in chunks:
        reader.feed(chunk)
    usage = reader.finish()
    return usage, reader.streamed_events


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 7, "completion_tokens": 10, "total_tokens": 17}, Usage(7, 10, 17)),
        ({"input_tokens": 7, "output_tokens": 10}, Usage(7, 10, 17)),
        ({"prompt_tokens": 7, "completion_tokens": 10, "total_tokens": 20}, Usage(7, 10, 20)),
        ({"prompt_tokens": 7, "total_tokens": 9}, Usage(7, None, 7)),
        ({"prompt_tokens": "7", "completion_tokens": " 8 "}, Usage(7, 8, 15)),
        ({"prompt_tokens": [7], "completion_tokens": {"a": 1}}, Usage(0, 0, 0)),
        ({"prompt_tokens": -7, "completion_tokens": "x"}, Usage(0, 0, 0)),
        ({"prompt_tokens": True, "completion_tokens": 2.0}, Usage(0, 2, 2)),
        ({"completion_tokens": 10**400}, Usage(None, MAX_TOKENS, MAX_TOKENS)),
        ({"prompt_tokens": 1e308}, Usage(MAX_TOKENS, None, MAX_TOKENS)),
        ({"prompt_tokens": None, "input_tokens": 3}, Usage(3, None, 3)),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}, Usage(5, None, 5, 4)),
        ({"input_tokens": 5, "input_tokens_details": {"cached_tokens": 0}}, Usage(5, None, 5, 0)),
        ({"prompt_tokens": 5, "prompt_tokens_details": None}, Usage(5, None, 5)),
        ({"input_tokens": 5, "cache_read_input_tokens": 2}, Usage(5, None, 5, 2)),
        ({}, Usage()),
    ],
)
def test_a_documents_usage_is_read(usage: dict[str, Any], expected: Usage) -> None:
    assert usage_of({"id": "1", "usage": usage, "model": "m"}) == expected


@pytest.mark.parametrize(
    "document",
    [
        b"upstream gone",
        b"",
        b"{}",
        b'{"usage":null}',
        b'{"usage":5}',
        b'{"usage":[{"prompt_tokens":1}]}',
        b'{"a":{"usage":{"prompt_tokens":1}}}',
        b'{"a":[{"usage":{"prompt_tokens":1}}]}',
        b'[{"usage":{"prompt_tokens":1}}]',
        b'{"a":"\\"usage\\":{}"}',
        b'{"a\\"usage":{"prompt_tokens":1}}',
        b'{"usage":{"prompt_tokens":1},',
        b'{"usage":{"prompt_tokens":1',
        b'{"usage":{broken}}',
        b'"usage"',
    ],
)
def test_a_document_without_usage_has_none(document: bytes) -> None:
    assert usage_of(document) is None


@given(st.dictionaries(st.sampled_from(["usage", "a", "b"]), JSON_VALUES | BLOCKS))
def test_the_top_level_usage_is_what_a_decoder_finds(members: dict[str, Any]) -> None:
    texts = [f"{json.dumps(key)} : {json.dumps(value)}" for key, value in members.items()]
    document = f" {{{' , '.join(texts)}}} \n".replace("NaN", "1").replace("Infinity", "1")

    found = usage_of(document.encode())

    usage = json.loads(document).get("usage")
    assert (found is not None) == isinstance(usage, dict)
    if found is not None:
        assert found == usage_of({"usage": usage})


@given(st.data())
def test_a_document_cut_anywhere_reads_as_if_it_were_whole(data: st.DataObject) -> None:
    document = b'{"choices":[{"text":"a"}],"usage":{"prompt_tokens":7,"completion_tokens":10}}\n'
    reader = JsonUsageReader(max_tail_bytes=60)

    for chunk in data.draw(cuts(document)):
        reader.feed(chunk)

    assert reader.finish() == Usage(7, 10, 17)


def test_of_a_big_document_only_the_tail_is_kept() -> None:
    reader = JsonUsageReader(max_tail_bytes=1000)
    reader.feed(b'{"data":[')
    for _ in range(1000):
        reader.feed(b'{"usage":{"prompt_tokens":1},"embedding":[0.1,0.2]},')
    reader.feed(b'{}],"usage":{"prompt_tokens":7},"model":"m"}')

    assert reader.finish() == Usage(7, None, 7)


def test_usage_before_the_tail_is_not_found() -> None:
    reader = JsonUsageReader(max_tail_bytes=100)
    reader.feed(b'{"usage":{"prompt_tokens":7},"data":"' + b"A" * 1000 + b'"}')

    assert reader.finish() is None


@pytest.mark.parametrize(
    ("chunks", "usage", "events"),
    [
        (
            [
                b'data: {"choices":[]}\n\n',
                b'data: {"usage":{"prompt_tokens":7,"completion_tokens":10,"total_tokens":17}}\n\n'
                b"data: [DONE]\n\n",
                b"",
            ],
            Usage(7, 10, 17),
            2,
        ),
        (
            [
                b'event: message_start\ndata: {"type":"message_start","message":{"usage":'
                b'{"input_tokens":25,"cache_read_input_tokens":5,"output_tokens":1}}}\n\n',
                b'event: message_delta\ndata: {"type":"message_delta","usage":'
                b'{"output_tokens":15}}\n\n',
            ],
            Usage(25, 15, 40, 5),
            2,
        ),
        (
            [
                b'data: {"type":"response.created","response":{"usage":null}}\n\n',
                b'data: {"type":"response.completed","response":{"usage":{"input_tokens":3,'
                b'"output_tokens":4,"total_tokens":8,"input_tokens_details":'
                b'{"cached_tokens":2}}}}\r\n\r\n',
            ],
            Usage(3, 4, 8, 2),
            2,
        ),
        (
            [
                b'data:{"usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8}}\n\n',
                b'data:{"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}\n\n',
                b'data:{"usage":{"prompt_tokens":0,"completion_tokens":0}}\n\n',
            ],
            Usage(7, 2, 9),
            3,
        ),
        ([b"data: [DONE]\r\n", b"data:[DONE]\n", b"data: [DONE] x\n"], None, 1),
        ([b'data: {"text":"data: [DONE]"}\n\n'], None, 1),
        ([b'{"usage":{"prompt_tokens":7}}\n', b": data: x\n", b"xdata: x\n"], None, 0),
        ([b'data: {"usage":{"prompt_tokens":7}}'], Usage(7, None, 7), 1),
        ([b'data: {"choices":[{"usage":{"prompt_tokens":7}}]}\n'], None, 1),
        ([b'data: {"usage":{"prompt_tokens":7}\n'], None, 1),
        ([b"data: [1]\n", b'data: ["usage"]\n', b"\n\n"], None, 2),
    ],
    ids=["chat", "anthropic", "responses", "continuous", "done", "text", "no data", "no newline",
         "nested", "broken", "arrays"],
)  # fmt: skip
def test_a_streams_usage_and_events_are_read(
    chunks: list[bytes], usage: Usage | None, events: int
) -> None:
    assert read_stream(*chunks) == (usage, events)


@given(streams())
def test_a_stream_cut_anywhere_reads_as_if_it_were_whole(stream: tuple[bytes, list[bytes]]) -> None:
    text, chunks = stream

    assert read_stream(*chunks) == read_stream(text)


@given(streams())
def test_events_are_the_data_lines_that_are_not_done(stream: tuple[bytes, list[bytes]]) -> None:
    text, chunks = stream

    lines = [line.strip() for line in text.split(b"\n") if line.startswith(b"data:")]

    events = [line for line in lines if line[5:].strip() != b"[DONE]"]
    assert read_stream(*chunks)[1] == len(events)


@given(st.lists(st.binary() | st.sampled_from([b'data: {"usage":', b"\n", b"}", b"data:"])))
def test_any_bytes_are_read_without_an_error(chunks: list[bytes]) -> None:
    for reader in (JsonUsageReader(16), SseUsageReader(16)):
        for chunk in chunks:
            reader.feed(chunk)
        assert reader.finish() is None or reader.streamed_events >= 0


def test_a_line_longer_than_is_kept_counts_as_an_event_without_usage() -> None:
    reader = SseUsageReader(max_line_bytes=40)
    reader.feed(b'data: {"text":"')
    for _ in range(100):
        reader.feed(b"A" * 100)
    reader.feed(b'","usage":{"prompt_tokens":7}}\ndata: {"usage":')
    reader.feed(b'{"prompt_tokens":3}}\n')

    assert reader.finish() == Usage(3, None, 3)
    assert reader.streamed_events == 2


def test_usage_nested_out_of_reach_is_no_error() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000

    assert usage_of(b'{"usage":{"a":' + deep + b"}}") is None
    assert read_stream(b'data: {"usage":{"a":' + deep + b"}}\n") == (None, 1)
