from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.data_layer.http_answer import MAX_CHUNKS, Answer, AnswerReader
from epp.data_layer.http_head import MAX_BODY_BYTES, MAX_HEAD_BYTES, NotUnderstood, TooLarge

OK = b"HTTP/1.1 200 OK\r\n"
HELLO = OK + b"Content-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    OK + b"Transfer-Encoding: Chunked\r\n\r\n3\r\nhel\r\n2;name=value\r\nlo\r\n0\r\nX-T: 1\r\n\r\n"
)
WITH_INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + HELLO
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"


def read_in_pieces(data: bytes, cuts: list[int]) -> list[Answer]:
    reader = AnswerReader()
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    answers = [reader.feed(data[a:b]) for a, b in pairwise(edges) if a != b]
    return [answer for answer in answers if answer is not None]


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        pytest.param(HELLO, Answer(200, b"hello", False), id="content-length"),
        pytest.param(CHUNKED, Answer(200, b"hello", False), id="chunked"),
        pytest.param(WITH_INTERIM, Answer(200, b"hello", False), id="after an interim answer"),
        pytest.param(EMPTY, Answer(204, b"", False), id="no content"),
        pytest.param(
            b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n", Answer(503, b"", False), id="503"
        ),
        pytest.param(
            HELLO.replace(b"\r\n\r\n", b"\r\nConnection: Close\r\n\r\n"),
            Answer(200, b"hello", True),
            id="told to close",
        ),
        pytest.param(
            HELLO.replace(b"1.1", b"1.0"), Answer(200, b"hello", True), id="an old protocol"
        ),
        pytest.param(
            b"HTTP/1.1 200\r\ncontent-length: 1\r\n\r\nx", Answer(200, b"x", False), id="no reason"
        ),
    ],
)
@given(cuts=st.lists(st.integers(0, 10_000), max_size=8))
def test_an_answer_is_the_same_however_it_is_cut(
    data: bytes, answer: Answer, cuts: list[int]
) -> None:
    assert read_in_pieces(data, cuts) == [answer]


def test_answers_follow_one_another() -> None:
    reader = AnswerReader()

    for data in (HELLO, CHUNKED, EMPTY, HELLO):
        assert reader.is_untouched
        assert reader.feed(data) is not None
    assert reader.is_untouched


def test_an_answer_without_length_ends_with_the_connection() -> None:
    reader = AnswerReader()

    assert reader.feed(OK + b"\r\nhel") is None
    assert reader.feed(b"lo") is None

    assert reader.finish() == Answer(200, b"hello", True)


@pytest.mark.parametrize("data", [HELLO[:-1], CHUNKED[:-1], OK], ids=["length", "chunks", "head"])
def test_a_connection_that_ends_too_early_brings_no_answer(data: bytes) -> None:
    reader = AnswerReader()

    assert reader.feed(data) is None
    assert reader.finish() is None


@pytest.mark.parametrize("data", [HELLO, CHUNKED], ids=["length", "chunks"])
def test_bytes_after_the_end_cost_the_connection_and_not_the_answer(data: bytes) -> None:
    assert AnswerReader().feed(data + b"HTTP/1.1") == Answer(200, b"hello", True)


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH",
        b"<html>",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 1\n\nx",
        OK + b"content-length: 1\r\ncontent-length: 2\r\n\r\nx",
        OK + b"content-length: -1\r\n\r\n",
        OK + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        OK + b"transfer-encoding: gzip, chunked\r\n\r\n",
        OK + b"content-encoding: gzip\r\n\r\n",
        OK + b"a: b\r\n folded\r\n\r\n",
        OK + b"no colon\r\n\r\n",
        OK + b"transfer-encoding: chunked\r\n\r\nxyz\r\n",
        OK + b"transfer-encoding: chunked\r\n\r\n-1\r\n",
        OK + b"transfer-encoding: chunked\r\n\r\n1\r\nabc",
    ],
)
def test_what_is_unusual_is_not_guessed_at(data: bytes) -> None:
    with pytest.raises(NotUnderstood):
        AnswerReader().feed(data)


@pytest.mark.parametrize(
    "data",
    [
        OK + b"x: " + b"y" * MAX_HEAD_BYTES,
        OK + b"content-length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1),
        OK + b"transfer-encoding: chunked\r\n\r\n%x\r\n" % (MAX_BODY_BYTES + 1),
        OK + b"\r\n" + b"x" * (MAX_BODY_BYTES + 1),
        b"HTTP/1.1 100 Continue\r\n\r\n" * (MAX_HEAD_BYTES // 20),
        OK + b"transfer-encoding: chunked\r\n\r\n0\r\n" + b"x" * (MAX_HEAD_BYTES + 1),
        OK + b"transfer-encoding: chunked\r\n\r\n" + b"0" * 2000,
        OK + b"transfer-encoding: chunked\r\n\r\n" + b"1\r\n#\r\n" * (MAX_CHUNKS + 1),
    ],
    ids=[
        *("head", "length", "chunk", "until the end", "interim answers", "trailers"),
        *("size of a chunk", "number of chunks"),
    ],
)
def test_size_is_bounded(data: bytes) -> None:
    with pytest.raises(TooLarge):
        AnswerReader().feed(data)


def test_many_chunks_are_bounded_together() -> None:
    reader = AnswerReader()
    reader.feed(OK + b"transfer-encoding: chunked\r\n\r\n")
    chunk = b"100000\r\n" + bytes(1 << 20) + b"\r\n"

    for _ in range(MAX_BODY_BYTES >> 20):
        assert reader.feed(chunk) is None

    with pytest.raises(TooLarge):
        reader.feed(chunk)


@given(st.lists(st.binary(max_size=200), max_size=6))
def test_arbitrary_bytes_end_in_an_answer_or_in_a_refusal(pieces: list[bytes]) -> None:
    reader = AnswerReader()
    reader.feed(OK + b"transfer-encoding: chunked\r\n\r\n")
    try:
        for piece in pieces:
            if reader.feed(piece) is not None:
                break
    except (NotUnderstood, TooLarge):
        pass


def page(body: bytes, *lines: bytes, status: bytes = b"200 OK", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    head = b"\r\n".join((b"HTTP/1.1 " + status, *lines, b"content-length: %d" % size))
    return head + b"\r\nserver: s\r\n\r\n" + body


@given(
    answers=st.lists(
        st.one_of(
            st.sampled_from([HELLO, CHUNKED, WITH_INTERIM, EMPTY]),
            st.builds(
                page,
                st.binary(max_size=30),
                st.sampled_from([b"date: 1", b"date: 2", b"connection: close"]),
                status=st.sampled_from([b"200 OK", b"503 Busy", b"204 No Content"]),
            ),
        ),
        max_size=8,
    ),
    last=st.builds(
        page,
        st.binary(max_size=12),
        st.sampled_from([b"date: 1", b"content-length: 3", b"transfer-encoding: chunked"]),
        length=st.one_of(st.none(), st.integers(0, 2_000_000)),
    ),
)
def test_an_answer_is_read_as_if_it_were_the_first(answers: list[bytes], last: bytes) -> None:
    def outcome(reader: AnswerReader, data: bytes) -> Answer | str | None:
        try:
            return reader.feed(data)
        except (NotUnderstood, TooLarge) as error:
            return repr(error)

    reader = AnswerReader()
    for data in (*answers, last):
        assert outcome(reader, data) == outcome(AnswerReader(), data)
