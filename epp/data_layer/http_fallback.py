"""The complete HTTP client: https, client certificates, and answers the raw one leaves alone."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from epp.data_layer.http_client import ACCEPT
from epp.data_layer.http_head import MAX_BODY_BYTES
from epp.data_layer.page import PageReader, reason_of
from epp.support.addresses import join_host_port

if TYPE_CHECKING:
    import aiohttp

    from epp.framework.data_layer import HttpTarget
    from epp.support.tasks import TaskOwner

_OK = 200
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_MOST_REDIRECTS = 3
_CONNECTIONS_PER_HOST = 2
# Certificates are renewed in place: connections made later than this use the new ones.
_CONTEXT_SECONDS = 60.0

_Identity = tuple[bool, Path | None, Path | None, Path | None]


class CompleteClient:
    """Owns the session and the TLS contexts; both are made when they are first needed."""

    def __init__(self, tasks: TaskOwner, timeout_seconds: float, max_connections: int) -> None:
        self._tasks = tasks
        self._timeout = timeout_seconds
        self._max_connections = max_connections
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[_Identity, tuple[ssl.SSLContext, float]] = {}
        self._building = asyncio.Lock()

    def page(self, target: HttpTarget, reader: PageReader) -> CompletePage:
        """A page read through this client."""
        return CompletePage(self, target, reader, self._tasks)

    async def get(self, target: HttpTarget) -> tuple[int, bytes]:
        """Status and body, after redirects to the same server; raises `OSError` or `ValueError`."""
        import aiohttp  # only now: most processes scrape without it

        from epp.support.http_problems import http_problem

        session = self._session
        if session is None:
            session = self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=self._max_connections, limit_per_host=_CONNECTIONS_PER_HOST
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=self._timeout),
                headers={"Accept": ACCEPT, "User-Agent": "epp"},
            )
        try:
            return await self._get(session, target)
        except aiohttp.ClientConnectorError as error:
            raise error.os_error from error
        except aiohttp.ClientConnectorCertificateError as error:
            raise ValueError(str(error.certificate_error)) from error
        except aiohttp.ClientError as error:
            raise ValueError(http_problem(error)) from error

    async def aclose(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _get(self, session: aiohttp.ClientSession, target: HttpTarget) -> tuple[int, bytes]:
        context = await self._context(target) if target.scheme == "https" else True
        server = f"{target.scheme}://{join_host_port(target.host, target.port)}"
        url = server + target.path
        for _ in range(_MOST_REDIRECTS + 1):
            async with session.get(url, ssl=context, allow_redirects=False) as response:
                location = response.headers.get("location", "")
                if response.status not in _REDIRECTS or not location:
                    return response.status, await _body(response)
                following = response.url.join(type(response.url)(location))
                if following.origin() != response.url.origin():
                    # A model server must not decide what else this process talks to.
                    raise ValueError("redirected to another server")
                url = str(following)
        raise ValueError(f"redirected more than {_MOST_REDIRECTS} times")

    async def _context(self, target: HttpTarget) -> ssl.SSLContext:
        identity = _identity(target)
        async with self._building:
            context, expiry = self._contexts.get(identity, (None, 0.0))
            now = asyncio.get_running_loop().time()
            if context is None or now > expiry:
                context = await asyncio.to_thread(_tls_context, *identity)
                self._contexts[identity] = context, now + _CONTEXT_SECONDS
            return context


class CompletePage:
    """A page read in a task for each request."""

    def __init__(
        self, client: CompleteClient, target: HttpTarget, reader: PageReader, tasks: TaskOwner
    ) -> None:
        self._client = client
        self._target = target
        self._reader = reader
        self._tasks = tasks
        self._asking: asyncio.Task[None] | None = None

    def fetch(self) -> None:
        """Ask for the page."""
        self._asking = self._tasks.spawn(self._ask(), name="scrape")

    def abort(self) -> None:
        """Give up the request in flight."""
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    close = abort

    async def _ask(self) -> None:
        try:
            status, body = await self._client.get(self._target)
        except (OSError, ValueError) as error:
            self._failed(reason_of(error))
            return
        if status == _OK:
            self._asking = None
            self._reader.page(body)
        else:
            self._failed(f"HTTP status {status}")

    def _failed(self, reason: str) -> None:
        self._asking = None
        self._reader.failure(reason)


async def _body(response: aiohttp.ClientResponse) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise ValueError(f"more than {MAX_BODY_BYTES} bytes of body")
        parts.append(part)
    return b"".join(parts)


def _identity(target: HttpTarget) -> _Identity:
    return (
        target.insecure_skip_verify,
        target.ca_cert_path,
        target.client_cert_path,
        target.client_key_path,
    )


def _tls_context(
    is_insecure: bool, authority: Path | None, certificate: Path | None, key: Path | None
) -> ssl.SSLContext:
    if is_insecure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        with _naming("certificates to trust", authority):
            context = ssl.create_default_context(cafile=authority)
        # On by default from Python 3.13; authorities of clusters often lack the key identifiers
        # that it asks for, and no other client minds.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if certificate is not None:
        with _naming("client certificate", certificate, key):
            # Without a password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(certificate, key, password="")
    return context


@contextmanager
def _naming(what: str, *paths: Path | None) -> Iterator[None]:
    """Failures tell which files are meant: the library's do not."""
    try:
        yield
    except (OSError, ValueError) as error:
        files = " and ".join(str(path) for path in paths if path is not None)
        raise ValueError(f"{what} {files} can't be used: {reason_of(error)}") from error
