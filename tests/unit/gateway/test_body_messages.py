from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from epp.gateway.body_messages import (
    REQUEST_BODY,
    RESPONSE_BODY,
    read_piece,
    request_body_chunks,
    response_body_chunks,
)
from epp.wire import ext_proc_pb2 as wire

BODIES = st.binary(max_size=300) | st.integers(120, 70_000).map(bytes)


def body_message(part: str, body: bytes, *, end: bool) -> wire.ProcessingRequest:
    message = wire.ProcessingRequest()
    piece = getattr(message, part)
    piece.SetInParent()
    piece.body = body
    piece.end_of_stream = end
    return message


def answer(part: str, body: bytes, *, end: bool) -> bytes:
    message = wire.ProcessingResponse()
    streamed = getattr(message, part).response.body_mutation.streamed_response
    streamed.SetInParent()
    streamed.body = body
    streamed.end_of_stream = end
    return message.SerializeToString()


@pytest.mark.parametrize(
    ("part", "tag"), [("request_body", REQUEST_BODY), ("response_body", RESPONSE_BODY)]
)
@given(body=BODIES, end=st.booleans(), metadata=st.booleans())
def test_a_piece_reads_as_protobuf_wrote_it(
    part: str, tag: bytes, body: bytes, end: bool, metadata: bool
) -> None:
    message = body_message(part, body, end=end)
    if metadata:
        message.metadata_context.SetInParent()
    written = message.SerializeToString()
    assert written[:1] == tag
    assert read_piece(written) == (body, end)


def with_metadata(message: wire.ProcessingRequest) -> None:
    message.metadata_context.filter_metadata["envoy.lb"].fields["a"].string_value = "b"


def with_attributes(message: wire.ProcessingRequest) -> None:
    message.attributes["a"].fields["b"].string_value = "c"


def observing(message: wire.ProcessingRequest) -> None:
    message.observability_mode = True


def with_modes(message: wire.ProcessingRequest) -> None:
    message.protocol_config.SetInParent()


@pytest.mark.parametrize("add", [with_metadata, with_attributes, observing, with_modes])
def test_a_message_that_says_more_is_left_to_protobuf(
    add: Callable[[wire.ProcessingRequest], None],
) -> None:
    message = body_message("request_body", b"{}", end=True)
    add(message)
    assert read_piece(message.SerializeToString()) is None


@given(body=BODIES, end=st.booleans(), namespace=st.text(max_size=200))
def test_metadata_beside_a_piece_of_the_response_is_passed_over(
    body: bytes, end: bool, namespace: str
) -> None:
    message = body_message("response_body", body, end=end)
    message.metadata_context.filter_metadata[namespace].fields["a"].string_value = "b"
    assert read_piece(message.SerializeToString()) == (body, end)


@pytest.mark.parametrize("add", [with_attributes, observing, with_modes])
def test_other_things_beside_it_are_left_to_protobuf(
    add: Callable[[wire.ProcessingRequest], None],
) -> None:
    message = body_message("response_body", b"{}", end=True)
    with_metadata(message)
    add(message)
    assert read_piece(message.SerializeToString()) is None


@given(
    tag=st.sampled_from([REQUEST_BODY, RESPONSE_BODY]),
    rest=st.binary(max_size=40)
    | st.lists(st.sampled_from([b"\x0a", b"\x10", b"\1", b"\0", b"\x80", b"B", b"xy"])).map(
        b"".join
    ),
)
def test_whatever_comes_is_read_as_protobuf_does_or_left_to_it(tag: bytes, rest: bytes) -> None:
    message = tag + rest
    piece = read_piece(message)
    if piece is not None:
        assert piece in map(by_protobuf, [message, *without_metadata(message)])


def by_protobuf(message: bytes) -> tuple[bytes, bool] | None:
    try:
        parsed = wire.ProcessingRequest.FromString(message)
    except DecodeError:
        return None
    kind = parsed.WhichOneof("request")
    if kind not in ("request_body", "response_body"):
        return None
    part = getattr(parsed, kind)
    return part.body, part.end_of_stream


def without_metadata(message: bytes) -> Iterator[bytes]:
    """What stands before it, wherever it may begin; of the response's alone it goes unread."""
    if message[:1] == RESPONSE_BODY:
        yield from (message[:at] for at in range(len(message)) if message[at] == ord("B"))


def padded(number: int, padding: int) -> bytes:
    """A varint that is longer than it needs to be."""
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    for _ in range(padding):
        encoded[-1] |= 0x80
        encoded.append(0)
    return bytes(encoded)


@given(
    tag=st.sampled_from([REQUEST_BODY, RESPONSE_BODY]),
    body=st.binary(max_size=200),
    outer=st.integers(0, 10),
    inner=st.integers(0, 10),
)
def test_lengths_that_are_padded_are_read_as_protobuf_does_or_left_to_it(
    tag: bytes, body: bytes, outer: int, inner: int
) -> None:
    part = b"\x0a" + padded(len(body), inner) + body
    message = tag + padded(len(part), outer) + part
    piece = read_piece(message)
    if piece is not None:
        parsed = wire.ProcessingRequest.FromString(message)
        read = parsed.request_body if tag == REQUEST_BODY else parsed.response_body
        assert piece == (read.body, read.end_of_stream)


@pytest.mark.parametrize("byte", [b"\x80", b"\xff"])
def test_a_length_without_end_costs_nothing(byte: bytes) -> None:
    assert read_piece(REQUEST_BODY + byte * (4 << 20)) is None
    assert read_piece(REQUEST_BODY + b"\x0a" + byte * (4 << 20)) is None


@given(body=BODIES.filter(lambda body: len(body) <= 62_000), end=st.booleans())
def test_hand_written_body_answers_equal_protobufs(body: bytes, end: bool) -> None:
    assert list(request_body_chunks(body, end=end)) == [answer("request_body", body, end=end)]
    assert list(response_body_chunks(body, end=end)) == [answer("response_body", body, end=end)]


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 62_000])
def test_body_answers_are_right_where_length_prefixes_grow(size: int) -> None:
    body = b"x" * size
    assert list(response_body_chunks(body, end=True)) == [answer("response_body", body, end=True)]


@given(size=st.integers(62_001, 400_000), end=st.booleans())
def test_long_bodies_are_cut_and_lose_nothing(size: int, end: bool) -> None:
    body = bytes(index % 251 for index in range(256)) * (size // 256 + 1)
    body = body[:size]
    pieces = [
        wire.ProcessingResponse.FromString(answer).request_body.response.body_mutation
        for answer in request_body_chunks(body, end=end)
    ]
    assert b"".join(piece.streamed_response.body for piece in pieces) == body
    assert all(len(piece.streamed_response.body) <= 62_000 for piece in pieces)
    ends = [piece.streamed_response.end_of_stream for piece in pieces]
    assert ends == [False] * (len(pieces) - 1) + [end]
