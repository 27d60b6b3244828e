"""An HTTP port of the process: pages in, a bound port out."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

from aiohttp import web

from epp.framework.errors import ConfigError, PortTaken
from epp.transport.certificates import CERTIFICATE_FILE, KEY_FILE, load_pair

SHUTDOWN_SECONDS = 2.0


class HttpPort:
    """Serves pages on one port. With `cert_dir` (`tls.crt`, `tls.key`) it speaks https."""

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
        self._runner: web.AppRunner | None = None

    async def start(self) -> int:
        """Listen; returns the port, which the system chose if it was 0."""
        tls = None
        if self._cert_dir is not None:
            tls = await asyncio.to_thread(_tls_context, self._cert_dir)
        runner = web.AppRunner(self._pages, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port, ssl_context=tls).start()
        except OSError as error:
            await runner.cleanup()
            raise PortTaken(
                f"{self._port_flag}: can't listen on {self._host}:{self._port}: {error.strerror}"
            ) from error
        self._runner = runner
        port: int = runner.addresses[0][1]
        return port

    async def stop(self) -> None:
        """Stop listening; answers under way have two seconds to end."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()


def _tls_context(cert_dir: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # First, for its errors tell which file is wrong, and how.
    load_pair(cert_dir, "--metrics-cert-dir")
    try:
        context.load_cert_chain(cert_dir / CERTIFICATE_FILE, cert_dir / KEY_FILE)
    except OSError as error:
        raise ConfigError(
            f"--metrics-cert-dir: the pair in {cert_dir} can't be used: {error}"
        ) from error
    return context
