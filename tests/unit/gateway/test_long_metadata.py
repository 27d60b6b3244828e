"""Headers and metadata of a message without end: not read, and counted where they are kept."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.gateway.body_messages import bytes_besides
from epp.gateway.stream import MAX_TOLD_BYTES
from epp.transport.streams import StatusCode
from epp.wire import ext_proc_pb2 as wire
from tests.fakes.pickers.gateway_client import COMPLETIONS, Answer, header_map
from tests.unit.gateway.test_sequences import FULL_DUPLEX, Gateway, make_picker

BODY = b'{"model":"m","prompt":"a"}'
LONG = header_map([*COMPLETIONS.items(), *[("x-a", "b")] * (MAX_TOLD_BYTES // 8)])


def with_metadata(message: bytes) -> bytes:
    extra = wire.ProcessingRequest()
    extra.metadata_context.filter_metadata["a"].update({"b": "c" * MAX_TOLD_BYTES})
    return message + extra.SerializeToString()


def with_attributes_first(message: bytes) -> bytes:
    extra = wire.ProcessingRequest()
    extra.attributes["a"].update({"b": "c" * MAX_TOLD_BYTES})
    return extra.SerializeToString() + message


def test_request_headers_without_end_are_answered_with_413() -> None:
    picker = make_picker()
    gateway = Gateway(picker, FULL_DUPLEX, FULL_DUPLEX)

    (answer,) = gateway.send("request_headers", headers=LONG)

    assert (answer.status, answer.details) == (413, "epp_payload_too_large")
    assert gateway.outlet.code is StatusCode.OK
    assert picker.path.guard.streams == picker.path.guard.buffered_bytes == 0


@pytest.mark.parametrize("add", [with_metadata, with_attributes_first])
def test_metadata_without_end_beside_a_body_is_answered_with_413(
    add: Callable[[bytes], bytes],
) -> None:
    picker = make_picker()
    gateway = Gateway(picker, FULL_DUPLEX, FULL_DUPLEX)
    gateway.send("request_headers", headers=header_map(COMPLETIONS))

    message = gateway.message("request_body", body=BODY, end_of_stream=True)
    gateway.transaction.on_message(add(message))

    (answer,) = gateway.outlet.take()
    assert answer.status == 413
    assert picker.in_flight == picker.path.guard.buffered_bytes == 0


def test_response_headers_without_end_go_through_unread() -> None:
    picker = make_picker()
    gateway = Gateway(picker, FULL_DUPLEX, FULL_DUPLEX)
    gateway.send("request_headers", headers=header_map(COMPLETIONS))
    gateway.send("request_body", body=BODY, end_of_stream=True)

    assert gateway.send("response_headers", headers=LONG) == [Answer(kind="response_headers")]
    (piece,) = gateway.send("response_body", body=b"answer", end_of_stream=True)

    assert piece.body == b"answer"
    gateway.transaction.on_half_close()
    assert gateway.outlet.code is StatusCode.OK
    assert picker.in_flight == 0


def test_long_headers_count_as_buffered_until_the_stream_ends() -> None:
    picker = make_picker()
    gateway = Gateway(picker, FULL_DUPLEX, FULL_DUPLEX)
    value = "b" * (MAX_TOLD_BYTES // 2)

    gateway.send("request_headers", headers=header_map({**COMPLETIONS, "x-a": value}))

    assert picker.path.guard.buffered_bytes > len(value)
    gateway.transaction.on_disconnect()
    assert picker.path.guard.buffered_bytes == 0


@pytest.mark.parametrize("part", ["request_body", "response_body"])
def test_a_long_body_is_no_metadata_whatever_stands_around_it(part: str) -> None:
    body = wire.ProcessingRequest(observability_mode=True)
    getattr(body, part).body = bytes(2 * MAX_TOLD_BYTES)
    message = body.SerializeToString()
    other = wire.ProcessingRequest()
    other.attributes["a"].update({"b": "c"})
    extra = other.SerializeToString()

    for written in (message, message + extra, extra + message):
        assert bytes_besides(written) <= len(extra) + 16


@given(st.binary(max_size=60))
def test_of_any_bytes_it_is_known_how_many_are_no_body(message: bytes) -> None:
    assert 0 <= bytes_besides(message) <= len(message)
