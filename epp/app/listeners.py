"""Every port of the process: ext_proc, health, metrics and admin."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from epp.admin.admin_pages import PageGroup, admin_pages
from epp.admin.http_port import HttpPort
from epp.admin.metrics_guard import MetricsGuard
from epp.admin.metrics_pages import metrics_pages
from epp.admin.pool_view import PoolView
from epp.app.options import ServeOptions
from epp.app.stream_ports import ExtProcPort, StreamServer, stream_ports
from epp.gateway.health import HealthState
from epp.gateway.service import ExternalProcessor
from epp.observability.metrics import Metrics
from epp.support.tasks import TaskOwner, keep_running
from epp.transport.certificates import Certificates, load_pair, self_signed_pair
from epp.transport.streams import MessageLimits

ALL_INTERFACES = "[::]"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundPorts:
    """The ports that were bound."""

    grpc: int
    health: int
    metrics: int
    admin: int


class Listeners:
    """Servers of one process, started together."""

    def __init__(
        self,
        options: ServeOptions,
        *,
        health: HealthState,
        metrics: Metrics,
        processor: ExternalProcessor,
        read_pool: Callable[[], PoolView],
        admin_groups: Sequence[PageGroup],
        plugin_state: Callable[[], Mapping[str, object]],
        tasks: TaskOwner,
    ) -> None:
        self._options = options
        self._health = health
        self._metrics = metrics
        self._processor = processor
        self._read_pool = read_pool
        self._admin_groups = admin_groups
        self._plugin_state = plugin_state
        self._tasks = tasks
        self._servers: list[StreamServer] = []
        self._http: list[HttpPort] = []

    async def start(self, guard: MetricsGuard | None = None) -> BoundPorts:
        """Listen everywhere; raises `ConfigError` for a port that can't be had.

        `guard` stands before the metrics port.
        """
        options = self._options
        pages = self._http_ports(guard)
        metrics_port, admin_port = [await self._serve_http(port) for port in pages]
        ports = stream_ports(options.transport)
        address = _grpc_address(options.bind_address)
        health = ports.health_server(
            self._health,
            address,
            options.grpc_health_port,
            self._metrics.connections.observer("health"),
        )
        health_port = await health.start()
        self._servers.append(health)
        server = ports.ext_proc_server(self._ext_proc_port())
        grpc_port = await server.start()
        self._servers.append(server)
        return BoundPorts(
            grpc=grpc_port, health=health_port, metrics=metrics_port, admin=admin_port
        )

    def _http_ports(self, guard: MetricsGuard | None) -> tuple[HttpPort, HttpPort]:
        options = self._options
        metrics = HttpPort(
            metrics_pages(self._metrics, self._plugin_state, guard),
            options.bind_address,
            options.metrics_port,
            port_flag="--metrics-port",
            tls=options.metrics_tls,
            observe_limits=self._metrics.connections.observer("metrics"),
        )
        admin = HttpPort(
            admin_pages(self._read_pool, *self._admin_groups),
            options.admin_address,
            options.admin_port,
            port_flag="--admin-port",
            observe_limits=self._metrics.connections.observer("admin"),
        )
        return metrics, admin

    async def _serve_http(self, port: HttpPort) -> int:
        number = await port.start()
        self._http.append(port)
        return number

    def _ext_proc_port(self) -> ExtProcPort:
        options = self._options
        return ExtProcPort(
            address=_grpc_address(options.bind_address),
            port=options.grpc_port,
            processor=self._processor,
            limits=MessageLimits(
                max_receive_bytes=options.grpc_max_recv_msg_size,
                max_send_bytes=options.grpc_max_send_msg_size,
            ),
            observer=self._metrics.streams,
            health=self._health if options.health_checking else None,
            certificates=self._certificates() if options.secure_serving else None,
            tls=options.tls,
            max_streams=options.max_streams,
            observe_limits=self._metrics.connections.observer("ext-proc"),
        )

    def _certificates(self) -> Certificates:
        directory = self._options.cert_path
        if directory is None:
            return Certificates(self_signed_pair(datetime.now(UTC)))
        certificates = Certificates(load_pair(directory))
        if self._options.enable_cert_reload:
            self._tasks.spawn(
                keep_running("certificate", lambda: certificates.follow(directory)), "certificate"
            )
        return certificates

    async def stop_streams(self, grace: float) -> None:
        """Take no new streams, and end the open ones after `grace` seconds."""
        await asyncio.gather(*(server.stop(grace) for server in self._servers))

    async def stop_pages(self) -> None:
        """End the metrics port and the admin port."""
        for port in self._http:
            await port.stop()


def _grpc_address(bind_address: str) -> str:
    if not bind_address:
        return ALL_INTERFACES
    return f"[{bind_address}]" if ":" in bind_address else bind_address
