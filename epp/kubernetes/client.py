"""Requests to the API server, one at a time, with credentials that are renewed as they expire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import aiohttp
import msgspec
import structlog

from epp import __version__
from epp.framework.errors import ConfigError
from epp.kubernetes.answers import CONNECTION_ERRORS, KubeResponse, unreachable
from epp.kubernetes.connections import Connections
from epp.kubernetes.credentials import (
    Credentials,
    api_client,
    find_credentials,
)
from epp.kubernetes.sockets import Sockets

log = structlog.get_logger(__name__)

_AUTHENTICATION = "BearerToken"
_UNAUTHORIZED = 401

_DEFAULT_TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=5)
_RESPONSE_TIMEOUT_SECONDS = 30.0


class KubeClient:
    """Credentials, TLS and connections towards one API server."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._authority = credentials.read_authority()
        self._connections = self._connect()
        self._renewals = 0
        self._renewing = asyncio.Lock()

    @classmethod
    async def connect(cls, kubeconfig: Path | None = None, context: str | None = None) -> Self:
        """A client of the cluster this runs in, or of a kubeconfig's; raises `ConfigError`."""
        return cls(await find_credentials(kubeconfig, context))

    @property
    def server(self) -> str:
        """The API server's URL."""
        return str(self._credentials.configuration.host)

    async def close(self) -> None:
        """Close all connections."""
        await self._connections.close()

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
        try:
            if response.status != _UNAUTHORIZED or not await self._renew(renewals):
                return response
        except BaseException:
            _hang_up(response)
            raise
        _hang_up(response)
        return await self._send(method, path, arguments, response_timeout)

    async def _send(
        self, method: str, path: str, arguments: Mapping[str, Any], response_timeout: float
    ) -> aiohttp.ClientResponse:
        try:
            async with asyncio.timeout(response_timeout):
                response: aiohttp.ClientResponse = await self._call(path, method, arguments)
        except CONNECTION_ERRORS as error:
            raise unreachable(error) from error
        return response

    async def _call(self, path: str, method: str, arguments: Mapping[str, Any]) -> Any:
        connections = self._connections
        try:
            return await connections.call(path, method, **arguments)
        except aiohttp.ClientConnectorCertificateError:
            if not await self._renew_authority(connections):
                raise
        return await self._connections.call(path, method, **arguments)

    async def _renew_authority(self, seen: Connections) -> bool:
        """Trust the certificates that are in the CA file now, if these are others.

        A cluster rotates its authority under running pods; once for all requests that it met.
        """
        async with self._renewing:
            if self._connections is not seen:
                return True
            try:
                authority = await asyncio.to_thread(self._credentials.read_authority)
                if authority == self._authority:
                    return False
                self._connections = self._connect()
            except ConfigError as error:
                log.warning("certificate authority can't be renewed", problem=str(error))
                return False
            self._authority = authority
            await seen.retire()
            log.info("trusting another certificate authority", server=self.server)
            return True

    def _connect(self) -> Connections:
        sockets = Sockets()
        api = api_client(self._credentials, f"epp/{__version__}", sockets.make)
        return Connections(api, sockets)

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
