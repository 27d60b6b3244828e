"""One Endpoint Picker process: builds every object, owns every task, starts and ends in order."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TextIO, cast

import structlog

from epp import __version__
from epp.admin.admin_pages import admin_pages
from epp.admin.http_port import HttpPort
from epp.admin.metrics_pages import metrics_pages
from epp.app.assembly import RequestPathSettings, build_request_path
from epp.app.options import ServeOptions
from epp.app.pool_events import PoolEvents
from epp.datastore.datastore import Datastore, Snapshot
from epp.datastore.inference_pool import FailureMode
from epp.discovery.pool_file_source import PoolFileSource
from epp.framework.errors import ConfigError
from epp.gateway.context import GatewaySettings
from epp.gateway.health import HealthState
from epp.gateway.health_service import health_handler, health_server
from epp.gateway.overload import OverloadLimits
from epp.gateway.replies import ErrorFormat
from epp.gateway.service import METHOD_NAME, SERVICE_NAME
from epp.observability.background_stream import BackgroundStream
from epp.observability.metrics import Metrics
from epp.observability.request_log import RequestLog
from epp.plugins.parsers.defaults import default_parsers
from epp.request_control.director import DirectorSettings
from epp.request_control.response import ResponseSettings
from epp.support.tasks import TaskOwner, keep_running
from epp.transport.certificates import Certificates, load_pair, self_signed_pair
from epp.transport.grpc_aio import GrpcServer, MessageLimits, StreamService

log = structlog.get_logger(__name__)

ALL_INTERFACES = "[::]"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundPorts:
    """The ports that were bound."""

    grpc: int
    health: int
    metrics: int
    admin: int


class Application:
    """The process behind `epp serve`, also run in-process by `epp standalone` and tests."""

    def __init__(self, options: ServeOptions, *, request_log_stream: TextIO | None = None) -> None:
        self._options = options
        self._metrics = Metrics(
            build_ref=__version__,
            deprecated_twins=options.deprecated_metrics,
            stream_metrics=options.enable_grpc_stream_metrics,
        )
        self._datastore = Datastore()
        self._health = HealthState()
        parsers = default_parsers()
        self._events = PoolEvents(options, parsers, self._metrics, self._health)
        self._datastore.subscribe(self._events.changed)
        self._requests: BackgroundStream | None = None
        request_log = None
        if options.request_log:
            if request_log_stream is None:
                self._requests = BackgroundStream(sys.stdout)
                # A text stream in everything but its static type.
                request_log_stream = cast("TextIO", self._requests)
            request_log = RequestLog(request_log_stream, options.log_format)
        self._path = build_request_path(
            self._datastore,
            self._metrics,
            request_path_settings(options),
            rng=random.Random(options.seed),
            request_log=request_log,
            parsers=parsers,
        )
        self._background = TaskOwner()
        self._stop_at_once = asyncio.Event()
        self._servers: list[GrpcServer] = []
        self._http: list[HttpPort] = []
        self._stopping = False

    def snapshot(self) -> Snapshot:
        """The pool as requests see it."""
        return self._datastore.snapshot()

    async def start(self) -> BoundPorts:
        """Read the pool, then serve. Raises `ConfigError` for what can't work."""
        options = self._options
        if options.pool_file is None:
            raise ConfigError("--pool-file: needed, there is no other source of endpoints")
        source = PoolFileSource(options.pool_file, self._datastore, self._events)
        source.load()
        self._keep_running("pool file", source.run)
        self._keep_running("load guard", self._path.guard.run)
        self._keep_running("idle bodies", self._path.processor.run)
        try:
            ports = await self._listen()
        except BaseException:
            await self._close(grace=0.0)
            raise
        log.info(
            "serving",
            ext_proc_port=ports.grpc,
            health_port=ports.health,
            metrics_port=ports.metrics,
            admin_port=ports.admin,
            tls=options.secure_serving,
        )
        return ports

    async def _listen(self) -> BoundPorts:
        options = self._options
        metrics_port, admin_port = [await self._serve_http(port) for port in self._http_ports()]
        address = _grpc_address(options.bind_address)
        health = health_server(self._health, address=address, port=options.grpc_health_port)
        health_port = await health.start()
        self._servers.append(health)
        server = self._ext_proc_server(address)
        grpc_port = await server.start()
        self._servers.append(server)
        return BoundPorts(
            grpc=grpc_port, health=health_port, metrics=metrics_port, admin=admin_port
        )

    def _http_ports(self) -> tuple[HttpPort, HttpPort]:
        options = self._options
        metrics = HttpPort(
            metrics_pages(self._metrics, dict),
            options.bind_address,
            options.metrics_port,
            port_flag="--metrics-port",
            cert_dir=options.metrics_cert_dir,
        )
        admin = HttpPort(
            admin_pages(self.snapshot, lambda: self._events.mode, self._health.not_ready_reasons),
            options.admin_address,
            options.admin_port,
            port_flag="--admin-port",
        )
        return metrics, admin

    async def _serve_http(self, port: HttpPort) -> int:
        number = await port.start()
        self._http.append(port)
        return number

    def _ext_proc_server(self, address: str) -> GrpcServer:
        options = self._options
        credentials = None
        if options.secure_serving:
            credentials = self._certificates().server_credentials()
        limits = MessageLimits(
            max_receive_bytes=options.grpc_max_recv_msg_size,
            max_send_bytes=options.grpc_max_send_msg_size,
        )
        return GrpcServer(
            address=address,
            port=options.grpc_port,
            port_flag="--grpc-port",
            handlers=[health_handler(self._health)] if options.health_checking else [],
            stream_service=StreamService(
                service=SERVICE_NAME,
                method=METHOD_NAME,
                handler_factory=self._path.processor,
                limits=limits,
                observer=self._metrics.streams,
            ),
            credentials=credentials,
        )

    def _certificates(self) -> Certificates:
        directory = self._options.cert_path
        if directory is None:
            return Certificates(self_signed_pair(datetime.now(UTC)))
        certificates = Certificates(load_pair(directory))
        if self._options.enable_cert_reload:
            self._keep_running("certificate", lambda: certificates.follow(directory))
        return certificates

    async def stop(self) -> None:
        """Not ready first, then serve on for the drain time, then end within the grace."""
        if not self._stopping:
            self._stopping = True
            self._health.set_draining()
            self._events.publish_readiness()
            drain = self._options.drain_timeout
            if drain:
                log.info("draining", seconds=drain)
                await self._pause(drain)
            await self._close(grace=self._options.shutdown_grace)
            log.info("stopped")

    def stop_at_once(self) -> None:
        """End a `stop` that is waiting."""
        self._stop_at_once.set()

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stop_at_once.wait()
        except TimeoutError:
            return

    async def _close(self, grace: float) -> None:
        self._health.close()
        # The last second is for streams that are given up to say so.
        stopping = asyncio.gather(*(server.stop(grace + 1) for server in self._servers))
        at_once = asyncio.ensure_future(self._stop_at_once.wait())
        await asyncio.wait((stopping, at_once), timeout=grace, return_when=asyncio.FIRST_COMPLETED)
        at_once.cancel()
        self._path.processor.abort_all("the endpoint picker is shutting down")
        await stopping
        await self._path.tasks.aclose()
        await self._background.aclose()
        for port in self._http:
            await port.stop()
        if self._requests is not None:
            self._requests.close()

    def _keep_running(self, name: str, serve: Callable[[], Awaitable[None]]) -> None:
        self._background.spawn(keep_running(name, serve), name=name)


def request_path_settings(options: ServeOptions) -> RequestPathSettings:
    """The options of the request path, room by room."""
    mode = options.failure_mode
    return RequestPathSettings(
        director=DirectorSettings(
            failure_mode=None if mode is None else FailureMode(mode),
            decision_timeout=options.decision_timeout,
            max_request_body_bytes=options.max_request_body_bytes,
            use_subset=not options.disable_endpoint_subset_filter,
        ),
        gateway=GatewaySettings(
            max_request_body_bytes=options.max_request_body_bytes,
            body_idle_timeout=options.body_idle_timeout,
            error_format=ErrorFormat(options.error_format),
            skip_response=options.skip_response_processing,
        ),
        response=ResponseSettings(
            served_endpoint_header=options.served_endpoint_header,
            debug_header=options.debug_response_header,
        ),
        overload=OverloadLimits(
            streams=options.max_streams,
            buffered_bytes=options.max_buffered_bytes,
            loop_lag_seconds=options.max_loop_lag,
        ),
    )


def _grpc_address(bind_address: str) -> str:
    if not bind_address:
        return ALL_INTERFACES
    return f"[{bind_address}]" if ":" in bind_address else bind_address
