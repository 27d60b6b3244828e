"""The metrics port: `/metrics`, `/debug/plugins/state` and `/healthz` over HTTP."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from aiohttp import web

from epp.framework.errors import ConfigError
from epp.observability.metrics import Metrics

SHUTDOWN_SECONDS = 2.0


class AdminServer:
    """Serves one process's metrics and plugin states.

    `plugin_state` gives, by plugin name, an object with `name`, `type` and `state` or `message`.
    With `cert_dir` (`tls.crt`, `tls.key`) it speaks https.
    """

    def __init__(
        self,
        metrics: Metrics,
        plugin_state: Callable[[], Mapping[str, object]],
        host: str,
        port: int,
        *,
        cert_dir: Path | None = None,
    ) -> None:
        self._metrics = metrics
        self._plugin_state = plugin_state
        self._host = host
        self._port = port
        self._cert_dir = cert_dir
        self._runner: web.AppRunner | None = None

    async def start(self) -> int:
        """Listen; returns the port, which the system chose if it was 0."""
        tls = None
        if self._cert_dir is not None:
            tls = await asyncio.to_thread(_tls_context, self._cert_dir)
        application = web.Application()
        application.router.add_get("/metrics", self._serve_metrics, allow_head=False)
        application.router.add_get(
            "/debug/plugins/state", self._serve_plugin_state, allow_head=False
        )
        application.router.add_get("/healthz", self._serve_health, allow_head=False)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port, ssl_context=tls).start()
        except OSError as error:
            await runner.cleanup()
            raise ConfigError(
                f"metrics port: can't listen on {self._host}:{self._port}: {error.strerror}"
            ) from error
        self._runner = runner
        port: int = runner.addresses[0][1]
        return port

    async def stop(self) -> None:
        """Stop listening; answers under way have two seconds to end."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _serve_metrics(self, request: web.Request) -> web.StreamResponse:
        slices, content_type = self._metrics.exposition(request.headers.get("Accept", ""))
        response = web.StreamResponse(headers={"Content-Type": content_type})
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            response.enable_compression(web.ContentCoding.gzip)
        await response.prepare(request)
        for piece in slices:
            await response.write(piece)
            # A page of thousands of series must not hold up requests until it is complete.
            await asyncio.sleep(0)
        await response.write_eof()
        return response

    async def _serve_plugin_state(self, _request: web.Request) -> web.Response:
        document = {"timestamp": datetime.now(UTC), "plugins": dict(self._plugin_state())}
        return web.Response(
            body=msgspec.json.encode(document, enc_hook=repr), content_type="application/json"
        )

    async def _serve_health(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")


def _tls_context(cert_dir: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(cert_dir / "tls.crt", cert_dir / "tls.key")
    except OSError as error:
        raise ConfigError(
            f"--metrics-cert-dir {cert_dir}: needs tls.crt and tls.key, a matching pair in PEM:"
            f" {error}"
        ) from error
    return context
