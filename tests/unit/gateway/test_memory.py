from __future__ import annotations

import tracemalloc
from collections.abc import Iterable

import pytest

from tests.fakes.eventually import eventually
from tests.fakes.pickers.collecting_outlet import CollectingOutlet
from tests.fakes.pickers.gateway_client import header_map
from tests.unit.gateway.test_sequences import FULL_DUPLEX, Gateway, Picker, make_picker

BODY_BYTES = 8 << 20


class ForgettingOutlet(CollectingOutlet):
    """Reads every answer and keeps none."""

    def __init__(self) -> None:
        super().__init__()
        self.sent_bytes = 0

    def send(self, messages: Iterable[bytes]) -> None:
        self.sent_bytes += sum(map(len, messages))


async def decided(picker: Picker) -> None:
    """Return when what takes several turns of the event loop has been done."""
    await eventually(lambda: len(picker.path.tasks) == 0)


async def test_an_answered_request_keeps_nothing_of_its_body() -> None:
    picker = make_picker()
    gateway = Gateway(picker, FULL_DUPLEX, FULL_DUPLEX)
    headers = header_map({":method": "POST", ":path": "/v1/completions", "x-request-id": "t"})
    gateway.send("request_headers", headers=headers)
    tracemalloc.start()
    try:
        body = b'{"model":"m","prompt":"' + b"x" * BODY_BYTES + b'"}'
        gateway.send("request_body", body=body, end_of_stream=True)
        del body
        await decided(picker)
        gateway.outlet.take()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert picker.in_flight == 1
    assert held < BODY_BYTES / 8
    gateway.transaction.on_disconnect()


@pytest.mark.parametrize("config", [None, ""], ids=["parsed", "hashed"])
async def test_inline_media_is_not_copied(config: str | None) -> None:
    """Pitfall 18."""
    picker = make_picker(config=config)
    outlet = ForgettingOutlet()
    gateway = Gateway(picker, FULL_DUPLEX, FULL_DUPLEX, outlet)
    headers = header_map({":method": "POST", ":path": "/v1/chat/completions", "x-request-id": "t"})
    gateway.send("request_headers", headers=headers)
    image = b"data:image/png;base64," + b"A" * BODY_BYTES
    body = (
        b'{"model":"m","messages":[{"role":"user","content":[{"type":"image_url",'
        b'"image_url":{"url":"' + image + b'"}}]}]}'
    )
    del image
    message = gateway.message("request_body", body=body, end_of_stream=True)
    del body
    tracemalloc.start()
    try:
        gateway.transaction.on_message(message)
        await decided(picker)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert outlet.sent_bytes > BODY_BYTES
    assert peak < 1.5 * BODY_BYTES
    gateway.transaction.on_disconnect()


async def test_a_long_chat_is_held_once_from_its_first_piece_to_its_answer() -> None:
    picker = make_picker(config="")
    outlet = ForgettingOutlet()
    gateway = Gateway(picker, FULL_DUPLEX, FULL_DUPLEX, outlet)
    headers = header_map({":method": "POST", ":path": "/v1/chat/completions", "x-request-id": "t"})
    gateway.send("request_headers", headers=headers)
    head, tail = b'{"model":"m","messages":[{"role":"user","content":"', b'"}]}'
    piece = b"words and\\n" * 5600
    tracemalloc.start()
    try:
        gateway.send("request_body", body=head)
        for _ in range(16 * 1024 * 1024 // len(piece)):
            gateway.send("request_body", body=piece)
        gateway.send("request_body", body=tail, end_of_stream=True)
        await decided(picker)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert outlet.sent_bytes > 1.9 * BODY_BYTES
    assert peak < 1.5 * outlet.sent_bytes
    gateway.transaction.on_disconnect()
