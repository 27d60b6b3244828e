"""Answers as server-sent events."""

from __future__ import annotations

import msgspec
from aiohttp import web

from epp.simulator.failures import Fate

FATE: web.RequestKey[Fate] = web.RequestKey("fate", Fate)
"""What was decided to happen to a request."""


class StreamCut(Exception):
    """The connection was closed in the middle of a stream, on purpose."""


class EventStream:
    """One streamed answer; ends early when the request's fate says so."""

    def __init__(self, request: web.Request) -> None:
        self.response = web.StreamResponse(
            headers={
                "content-type": "text/event-stream; charset=utf-8",
                "cache-control": "no-cache",
            }
        )
        self._request = request
        fate = request.get(FATE)
        self._events_left = None if fate is None else fate.cut_stream_after

    async def open(self) -> None:
        """Send the headers."""
        await self.response.prepare(self._request)
        self._cut_if_due()

    async def send(self, data: object, event: str = "") -> None:
        """Send `data` as JSON, or as it is when it is bytes."""
        payload = data if isinstance(data, bytes) else msgspec.json.encode(data)
        head = b"event: " + event.encode() + b"\n" if event else b""
        await self.response.write(head + b"data: " + payload + b"\n\n")
        if self._events_left is not None:
            self._events_left -= 1
            self._cut_if_due()

    async def close(self) -> web.StreamResponse:
        """End the answer as it should end."""
        await self.response.write_eof()
        return self.response

    def _cut_if_due(self) -> None:
        if self._events_left == 0 and self._request.transport is not None:
            self._request.transport.close()
            raise StreamCut
