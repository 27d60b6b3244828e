"""An HTTP port of the process: pages in, a bound port out."""

from __future__ import annotations

import asyncio
import ssl
from functools import partial
from pathlib import Path

from aiohttp import web

from epp.framework.errors import ConfigError, PortTaken
from epp.support.tasks import TaskOwner, keep_running
from epp.transport.certificates import CertificatePair, Certificates, load_pair
from epp.transport.native.tls import load_into

SHUTDOWN_SECONDS = 2.0
_FLAG = "--metrics-cert-dir"


class HttpPort:
    """Serves pages on one port. With `cert_dir` (`tls.crt`, `tls.key`) it speaks https.

    A pair that is put into the place of the one there is used from the next connection on.
    """

    def __init__(
        self,
        pages: web.Application,
        host: str,
        port: int,
        *,
        port_flag: str,
        cert_dir: Path | None = None,
    ) -> None:
        self._pages = pages
        self._host = host
        self._port = port
        self._port_flag = port_flag
        self._cert_dir = cert_dir
        self._tasks = TaskOwner()
        self._runner: web.AppRunner | None = None

    async def start(self) -> int:
        """Listen; returns the port, which the system chose if it was 0."""
        tls = None
        if self._cert_dir is not None:
            tls = await self._tls_context(self._cert_dir)
        runner = web.AppRunner(self._pages, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port, ssl_context=tls).start()
        except OSError as error:
            await runner.cleanup()
            await self._tasks.aclose()
            raise PortTaken(
                f"{self._port_flag}: can't listen on {self._host}:{self._port}: {error.strerror}"
            ) from error
        self._runner = runner
        port: int = runner.addresses[0][1]
        return port

    async def stop(self) -> None:
        """Stop listening; answers under way have two seconds to end."""
        await self._tasks.aclose()
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _tls_context(self, cert_dir: Path) -> ssl.SSLContext:
        certificates = Certificates(await asyncio.to_thread(load_pair, cert_dir, _FLAG))
        context = _new_context(certificates.pair)

        def use(pair: CertificatePair) -> None:
            _new_context(pair)  # what can't be used must not reach the live context
            load_into(context, pair)

        certificates.give_to(use)
        follow = partial(certificates.follow, cert_dir)
        name = "metrics certificate"
        self._tasks.spawn(keep_running(name, follow), name=name)
        return context


def _new_context(pair: CertificatePair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        load_into(context, pair)
    except ssl.SSLError as error:
        raise ConfigError(f"{_FLAG}: the pair can't be used: {error.reason}") from error
    return context
