from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.gateway import messages
from epp.wire import ext_proc_pb2 as wire


def built(field: str, body: bytes, *, end: bool) -> bytes:
    answer = wire.ProcessingResponse()
    streamed = getattr(answer, field).response.body_mutation.streamed_response
    streamed.SetInParent()
    streamed.body = body
    streamed.end_of_stream = end
    return answer.SerializeToString()


@given(body=st.binary(max_size=300) | st.integers(120, 62_000).map(bytes), end=st.booleans())
def test_hand_written_body_answers_equal_protobufs(body: bytes, end: bool) -> None:
    assert list(messages.request_body_chunks(body, end=end)) == [
        built("request_body", body, end=end)
    ]
    assert list(messages.response_body_chunks(body, end=end)) == [
        built("response_body", body, end=end)
    ]


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 62_000])
def test_body_answers_are_right_where_length_prefixes_grow(size: int) -> None:
    body = b"x" * size
    assert list(messages.response_body_chunks(body, end=True)) == [
        built("response_body", body, end=True)
    ]


@given(size=st.integers(62_001, 400_000), end=st.booleans())
def test_long_bodies_are_cut_and_lose_nothing(size: int, end: bool) -> None:
    body = bytes(index % 251 for index in range(256)) * (size // 256 + 1)
    body = body[:size]
    pieces = [
        wire.ProcessingResponse.FromString(answer).request_body.response.body_mutation
        for answer in messages.request_body_chunks(body, end=end)
    ]
    assert b"".join(piece.streamed_response.body for piece in pieces) == body
    assert all(len(piece.streamed_response.body) <= 62_000 for piece in pieces)
    ends = [piece.streamed_response.end_of_stream for piece in pieces]
    assert ends == [False] * (len(pieces) - 1) + [end]


def test_constant_answers_have_their_part_set() -> None:
    for data, part in (
        (messages.EMPTY_REQUEST_HEADERS, "request_headers"),
        (messages.EMPTY_RESPONSE_HEADERS, "response_headers"),
        (messages.CONTINUE_REQUEST_BODY, "request_body"),
        (messages.CONTINUE_RESPONSE_BODY, "response_body"),
        (messages.REQUEST_TRAILERS, "request_trailers"),
        (messages.RESPONSE_TRAILERS, "response_trailers"),
    ):
        assert wire.ProcessingResponse.FromString(data).WhichOneof("response") == part


def test_hop_by_hop_and_pseudo_headers_are_never_set() -> None:
    mutation = wire.HeaderMutation()
    messages.fill_mutation(
        mutation, {"transfer-encoding": b"chunked", ":path": b"/x", "x-a": b"1", "x-b": None}
    )
    assert [option.header.key for option in mutation.set_headers] == ["x-a"]
    assert list(mutation.remove_headers) == ["x-b"]


def test_served_endpoint_of_metadata_wins_over_the_attribute() -> None:
    message = wire.ProcessingRequest()
    assert messages.served_endpoint(message) is None
    message.attributes["envoy.filters.http.ext_proc"].update({"upstream.address": "10.0.0.1:80"})
    assert messages.served_endpoint(message) == "10.0.0.1:80"
    message.metadata_context.filter_metadata["envoy.lb"].update(
        {"x-gateway-destination-endpoint-served": "10.0.0.2:80"}
    )
    assert messages.served_endpoint(message) == "10.0.0.2:80"
