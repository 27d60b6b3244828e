"""What the ports that take streams serve, whatever their transport."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from epp.app.tls_choice import TlsChoice, TransportName
from epp.gateway.health import HealthState
from epp.gateway.service import ExternalProcessor
from epp.observability.stream_metrics import StreamMetrics
from epp.transport.certificates import Certificates
from epp.transport.crowding import LimitObserver, unobserved
from epp.transport.streams import MessageLimits

HEALTH_CONNECTIONS = 256
"""Of the port for probes, which ask once in a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtProcPort:
    """The port that gateways call."""

    address: str
    port: int
    processor: ExternalProcessor
    limits: MessageLimits
    observer: StreamMetrics
    health: HealthState | None
    """Told on this port, too."""
    certificates: Certificates | None
    """None: without TLS."""
    tls: TlsChoice
    max_streams: int
    """That are answered; more are refused in ways gateways understand less."""
    observe_limits: LimitObserver


class StreamServer(Protocol):
    """A port that takes streams."""

    async def start(self) -> int:
        """Listen and serve; return the port."""

    async def stop(self, grace: float) -> None:
        """Take no more streams, and cut the open ones after `grace` seconds."""


class StreamPorts(Protocol):
    """The module of a transport."""

    def ext_proc_server(self, port: ExtProcPort) -> StreamServer:
        """Serves ext_proc."""

    def health_server(
        self,
        health: HealthState,
        address: str,
        port: int,
        observe_limits: LimitObserver = unobserved,
    ) -> StreamServer:
        """Serves what probes ask, in plaintext."""


def stream_ports(transport: TransportName) -> StreamPorts:
    """The ports of one transport; the other's libraries stay unloaded, which saves 8 MB."""
    return cast(StreamPorts, import_module(f"epp.app.{transport}_ports"))
