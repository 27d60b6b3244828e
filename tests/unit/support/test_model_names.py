"""The model name of responses turned back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.support.model_names import (
    ChunkModelRewriter,
    DocumentModelRewriter,
    LineModelRewriter,
    ModelRenaming,
    ModelRewriter,
)
from tests.fakes.cuts import cuts

LINES = st.lists(
    st.sampled_from(
        [
            b'data: {"id":"1","model":"base","choices":[{"delta":{"content":"a"}}]}',
            b'data:{"model": "base","x":"\\"model\\":\\"base\\""}',
            b'data: {"type":"response.completed","response":{"model":"base"}}',
            b'data: {"message":{"model":"b\\u0061se","content":["model","base"]}}',
            b'data: {"choices":[{"model":"base"}],"text":"base"}',
            b'data: {"model":"other"}',
            b"data: [DONE]",
            b"event: base",
            b': {"model":"base"}',
            b"data: not json base",
            b"",
        ]
    ),
    max_size=8,
)
ENDINGS = st.sampled_from([b"\n", b"\r\n"])


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """An event stream, whole and cut anywhere."""
    text = draw(ENDINGS).join(draw(LINES)) + draw(st.sampled_from([b"", b"\n", b"\n\n"]))
    return text, draw(cuts(text))


def fed(rewriter: ModelRewriter, chunks: list[bytes]) -> bytes:
    *others, last = chunks
    return b"".join([*(rewriter.feed(chunk, False) for chunk in others), rewriter.feed(last, True)])


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ('{"id":"1","model":"base"}', '{"id":"1","model":"m"}'),
        ('{"model" : "base" , "a":1}', '{"model" : "m" , "a":1}'),
        ('{"response":{"id":1,"model":"base"}}', '{"response":{"id":1,"model":"m"}}'),
        ('{"message":{"model":"base"},"model":"base"}', '{"message":{"model":"m"},"model":"m"}'),
        ('{"model":"b\\u0061se"}', '{"model":"m"}'),
        ('{"m\\u006fdel":"base"}', '{"m\\u006fdel":"m"}'),
        ('{"model":"base","model":"base"}', '{"model":"m","model":"m"}'),
        ('{"choices":[{"model":"base"}]}', None),
        ('{"other":{"model":"base"}}', None),
        ('{"response":{"message":{"model":"base"}}}', None),
        ('{"text":"\\"model\\":\\"base\\"","a":"base"}', None),
        ('{"model":"base-2","x":"base"}', None),
        ('{"model":["base"]}', None),
        ('[{"model":"base"}]', None),
        ("base is gone", None),
        ('{"model":"base', None),
        ('{"model":"base","choices":[{"te', '{"model":"m","choices":[{"te'),
    ],
)  # fmt: skip
def test_a_document_is_renamed_in_three_places_only(document: str, expected: str | None) -> None:
    renamed = ModelRenaming("base", "m").in_document(document.encode())

    assert renamed.decode() == (document if expected is None else expected)


@given(streams())
def test_a_stream_cut_anywhere_is_renamed_as_if_it_were_whole(
    stream: tuple[bytes, list[bytes]],
) -> None:
    text, chunks = stream

    renamed = fed(LineModelRewriter("base", "in/köln"), chunks)

    assert renamed == ModelRenaming("base", "in/köln").in_lines(text)


@given(streams())
def test_every_line_differs_by_the_names_alone(stream: tuple[bytes, list[bytes]]) -> None:
    text, chunks = stream

    renamed = fed(LineModelRewriter("base", "m"), chunks)

    for before, after in zip(text.split(b"\n"), renamed.split(b"\n"), strict=True):
        if before == after:
            continue
        old, new = json.loads(before[5:]), json.loads(after[5:])
        for holder in (new, new.get("response", {}), new.get("message", {})):
            if holder.get("model") == "m":
                holder["model"] = "base"
        assert new == old


@given(st.binary(max_size=200).flatmap(cuts))
def test_a_rewriter_of_the_same_name_changes_nothing(chunks: list[bytes]) -> None:
    for rewriter in (LineModelRewriter("a", "a", 16), ChunkModelRewriter("a", "a")):
        assert fed(rewriter, chunks) == b"".join(chunks)


@given(streams(), st.integers(0, 60))
def test_nothing_is_lost_when_lines_outgrow_what_may_be_held(
    stream: tuple[bytes, list[bytes]], most: int
) -> None:
    text, chunks = stream

    assert fed(LineModelRewriter("nobody", "m", most), chunks) == text


@given(streams())
def test_what_is_held_is_the_incomplete_line(stream: tuple[bytes, list[bytes]]) -> None:
    rewriter = LineModelRewriter("base", "m")
    seen = b""
    for chunk in stream[1]:
        rewriter.feed(chunk, False)
        seen += chunk

        assert rewriter.held == seen.rpartition(b"\n")[2]


def test_a_line_too_long_to_hold_passes_as_it_came_until_its_newline() -> None:
    rewriter = LineModelRewriter("base", "m", max_held_bytes=20)

    assert rewriter.feed(b'data: {"model":"ba', False) == b""
    assert rewriter.feed(b'se","a":', False) == b'data: {"model":"base","a":'
    assert rewriter.feed(b'"model"', False) == b'"model"'
    assert rewriter.feed(b'}\ndata: {"model":"base"}\n', False) == b'}\ndata: {"model":"m"}\n'


def test_a_last_line_without_newline_is_renamed_at_the_end() -> None:
    rewriter = LineModelRewriter("base", "m")

    assert rewriter.feed(b'data: {"model":"base"}', False) == b""
    assert rewriter.feed(b"", True) == b'data: {"model":"m"}'


@given(cuts(b'{"id":1,"model":"base","choices":[{"text":"base"}]}'))
def test_a_document_in_pieces_is_held_until_its_end(chunks: list[bytes]) -> None:
    rewriter = DocumentModelRewriter("base", "m")

    assert fed(rewriter, chunks) == b'{"id":1,"model":"m","choices":[{"text":"base"}]}'
    assert rewriter.held == b""


def test_a_document_too_long_to_hold_is_renamed_at_its_beginning() -> None:
    rewriter = DocumentModelRewriter("base", "m", max_held_bytes=30)

    assert rewriter.feed(b'{"model":"base",', False) == b""
    assert rewriter.held == b'{"model":"base",'
    assert rewriter.feed(b'"a":"0123456789', False) == b'{"model":"m","a":"0123456789'
    assert rewriter.feed(b'","model":"base"}', True) == b'","model":"base"}'


def test_without_holding_whole_lines_are_renamed_and_others_pass() -> None:
    rewriter = ChunkModelRewriter("base", "m")
    line = b'data: {"model":"base"}\n'

    assert rewriter.feed(line + line[:-1], False) == b'data: {"model":"m"}\n' + line[:-1]
    assert rewriter.feed(b"\n" + line, False) == b'\ndata: {"model":"m"}\n'
    assert rewriter.feed(b'data: {"a', False) == b'data: {"a'
    assert rewriter.feed(b'":"' + line[:-1], False) == b'":"' + line[:-1]
    assert rewriter.feed(b'\n' + line[:-1], True) == b'\ndata: {"model":"m"}'  # fmt: skip


def test_without_holding_a_document_is_renamed_in_its_first_chunk_only() -> None:
    rewriter = ChunkModelRewriter("base", "m")

    assert rewriter.feed(b"", False) == b""
    assert rewriter.feed(b'{"model":"base","x', False) == b'{"model":"m","x'
    assert rewriter.feed(b'data: {"model":"base"}\n', True) == b'data: {"model":"base"}\n'


def test_a_deeply_nested_response_is_read_without_recursion() -> None:
    document = b'{"a":' + b"[" * 50_000 + b"]" * 50_000 + b',"model":"base"}'

    assert ModelRenaming("base", "m").in_document(document).endswith(b',"model":"m"}')
