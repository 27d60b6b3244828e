"""One request to the API server at a time: status, headers and body, and errors with names."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import aiohttp
import msgspec
import structlog

from epp import __version__
from epp.framework.errors import ConfigError, PickerError
from epp.kubernetes.credentials import (
    Credentials,
    api_client,
    find_credentials,
    plain_credentials,
)
from epp.kubernetes.objects import UNREADABLE, decode_status
from epp.support.http_problems import http_problem

log = structlog.get_logger(__name__)

MOST_BYTES = 64 << 20
"""Of one answer: 500 pods, a page of a list, of 130 KB each."""

_MOST_ERROR_BYTES = 1 << 20
_AUTHENTICATION = "BearerToken"
_UNAUTHORIZED = 401
_LONGEST_MESSAGE = 500

_DEFAULT_TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=5)
_RESPONSE_TIMEOUT_SECONDS = 30.0
_ERROR_TIMEOUT_SECONDS = 10.0

_CONNECTION_ERRORS = (aiohttp.ClientError, OSError, TimeoutError)

# A peer that vanished without a word is noticed after 35 seconds.
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4))
        if hasattr(socket, name)
    ),
)


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
        except _CONNECTION_ERRORS as error:
            raise _unreachable(error) from error
        if not chunk:
            raise StopAsyncIteration
        return chunk


class KubeClient:
    """Credentials, TLS and connections towards one API server."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._authority = credentials.read_authority()
        self._api: Any = api_client(credentials, f"epp/{__version__}")
        self._renewals = 0
        self._renewing = asyncio.Lock()

    @classmethod
    async def connect(cls, kubeconfig: Path | None = None, context: str | None = None) -> Self:
        """A client of the cluster this runs in, or of a kubeconfig's; raises `ConfigError`."""
        return cls(await find_credentials(kubeconfig, context))

    @classmethod
    def of_server(cls, server: str, token: str | None = None) -> Self:
        """A client of the API server at that URL. Must be called while the event loop runs."""
        return cls(plain_credentials(server, token))

    @property
    def server(self) -> str:
        """The API server's URL."""
        return str(self._credentials.configuration.host)

    async def close(self) -> None:
        """Close all connections."""
        await self._api.close()

    @asynccontextmanager
    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "",
        timeout: aiohttp.ClientTimeout = _DEFAULT_TIMEOUT,
        response_timeout: float = _RESPONSE_TIMEOUT_SECONDS,
    ) -> AsyncIterator[KubeResponse]:
        """The answer, whatever its status; raises `KubeUnreachable` when there is none.

        `body` is JSON, of a `content_type` of its own in patches. `response_timeout` bounds the
        wait for the headers, `timeout` the rest.
        """
        arguments = {
            "query_params": list((query or {}).items()),
            "header_params": {"Content-Type": content_type} if content_type else {},
            "body": None if body is None else msgspec.json.decode(body),
            "auth_settings": [_AUTHENTICATION],
            "_preload_content": False,
            "_request_timeout": timeout,
        }
        response = await self._authenticated(method, path, arguments, response_timeout)
        try:
            yield KubeResponse(response)
        finally:
            _hang_up(response)

    async def _authenticated(
        self, method: str, path: str, arguments: Mapping[str, Any], response_timeout: float
    ) -> aiohttp.ClientResponse:
        renewals = self._renewals
        response = await self._send(method, path, arguments, response_timeout)
        if response.status != _UNAUTHORIZED or not await self._renew(renewals):
            return response
        _hang_up(response)
        return await self._send(method, path, arguments, response_timeout)

    async def _send(
        self, method: str, path: str, arguments: Mapping[str, Any], response_timeout: float
    ) -> aiohttp.ClientResponse:
        try:
            async with asyncio.timeout(response_timeout):
                response: aiohttp.ClientResponse = await self._call(path, method, arguments)
        except _CONNECTION_ERRORS as error:
            raise _unreachable(error) from error
        _keep_alive(response)
        return response

    async def _call(self, path: str, method: str, arguments: Mapping[str, Any]) -> Any:
        try:
            return await self._api.call_api(path, method, **arguments)
        except aiohttp.ClientConnectorCertificateError:
            if not await self._renew_authority():
                raise
        return await self._api.call_api(path, method, **arguments)

    async def _renew_authority(self) -> bool:
        """Trust the certificates that are in the CA file now, if these are others.

        A cluster rotates its authority under running pods.
        """
        async with self._renewing:
            try:
                authority = await asyncio.to_thread(self._credentials.read_authority)
                if authority == self._authority:
                    return False
                api, self._api = self._api, api_client(self._credentials, f"epp/{__version__}")
            except ConfigError as error:
                log.warning("certificate authority can't be renewed", problem=str(error))
                return False
            self._authority = authority
            await api.close()
            log.info("trusting another certificate authority", server=self.server)
            return True

    async def _renew(self, seen: int) -> bool:
        """Take the credentials anew, once for all requests that were refused with the same ones."""
        async with self._renewing:
            if self._renewals != seen:
                return True
            self._renewals += 1
            try:
                await self._credentials.renew()
            except ConfigError as error:
                log.warning("credentials can't be renewed", problem=str(error))
                return False
            return True


def _hang_up(response: aiohttp.ClientResponse) -> None:
    # Harmless when the body was read: the connection is back already. Otherwise there is no
    # farewell of TLS, for which a frozen peer would keep the connection half a minute.
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


def _keep_alive(response: aiohttp.ClientResponse) -> None:
    connection = response.connection
    transport = connection.transport if connection else None
    sock = transport.get_extra_info("socket") if transport else None
    if sock is None:
        return
    for level, option, value in _KEEPALIVE:
        sock.setsockopt(level, option, value)


def _unreachable(error: BaseException) -> KubeUnreachable:
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
