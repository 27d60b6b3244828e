"""What the API server answers: status, headers and body, and errors with names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Self

import aiohttp

from epp.framework.errors import PickerError
from epp.kubernetes.envelopes import UNREADABLE, decode_status
from epp.support.http_problems import http_problem

MOST_BYTES = 64 << 20
"""Of one answer: 500 pods, a page of a list, of 130 KB each."""

CONNECTION_ERRORS = (aiohttp.ClientError, OSError, TimeoutError)
"""What there is to `KubeUnreachable` in aiohttp."""

_MOST_ERROR_BYTES = 1 << 20
_LONGEST_MESSAGE = 500
_ERROR_TIMEOUT_SECONDS = 10.0


class KubeUnreachable(PickerError):
    """There is no answer from the API server: connection refused, broken, silent, or no end."""


class KubeStatusError(PickerError):
    """The API server answered, and the answer is no."""

    def __init__(
        self, status: int, reason: str, message: str, retry_after: float | None = None
    ) -> None:
        super().__init__(": ".join(filter(None, (f"{status} {reason}".strip(), message))))
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        """Seconds the server asks to wait."""


class KubeResponse:
    """An answer whose body is still to be read."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self, most: int = MOST_BYTES) -> bytes:
        """The whole body; `KubeUnreachable` if it is longer than `most` bytes."""
        body = bytearray()
        async for chunk in self.chunks():
            body += chunk
            if len(body) > most:
                raise KubeUnreachable(f"an answer of more than {most >> 20} MiB is not read")
        return bytes(body)

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives."""
        return _Chunks(self._response.content)


class _Chunks:
    # Not a generator: one that is left early would wait for the garbage collector.
    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._content.readany()
        except CONNECTION_ERRORS as error:
            raise unreachable(error) from error
        if not chunk:
            raise StopAsyncIteration
        return chunk


def unreachable(error: BaseException) -> KubeUnreachable:
    """A connection that failed, in words."""
    return KubeUnreachable(http_problem(error))


async def status_error(response: KubeResponse) -> KubeStatusError:
    """What an answer that is not 2xx says, be it a Status object or the page of a proxy."""
    try:
        async with asyncio.timeout(_ERROR_TIMEOUT_SECONDS):
            content = await response.read(_MOST_ERROR_BYTES)
    except TimeoutError as error:
        raise KubeUnreachable(f"status {response.status} without an end") from error
    retry_after = _seconds(response.headers.get("Retry-After"))
    try:
        status = decode_status(content)
    except UNREADABLE:
        text = " ".join(content[: 2 * _LONGEST_MESSAGE].decode("utf-8", "replace").split())
        return KubeStatusError(response.status, "", text[:_LONGEST_MESSAGE], retry_after)
    return KubeStatusError(
        response.status, status.reason, status.message[:_LONGEST_MESSAGE], retry_after
    )


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() else None
