"""Options of one Endpoint Picker process: its flags, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from epp.admin.http_tls import HttpTls
from epp.app.pool_choice import NO_POOL, PoolChoice
from epp.app.serve_flags import ServeFlags
from epp.app.tls_choice import TlsChoice
from epp.datastore.inference_pool import FailureMode
from epp.support.quantities import format_quantity

LogLevel = Literal["critical", "error", "info", "debug", "trace"]

_ZAP_LEVELS: Mapping[str | None, LogLevel] = {
    "panic": "critical",
    "error": "error",
    "info": "info",
    "debug": "debug",
}
SHORTEST_REFRESH = 0.05
NOBODY_TO_ASK = (
    "--metrics-endpoint-auth=true takes an API server to ask: with endpoints of a file, restrict"
    " who reaches the port and give --metrics-endpoint-auth=false"
)
_DEBUG_VERBOSITY = 4
_TRACE_VERBOSITY = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions(ServeFlags):
    """What the flags mean together."""

    @property
    def log_level(self) -> LogLevel:
        """Return the least severe level that is logged."""
        if self.zap_log_level in _ZAP_LEVELS:
            return _ZAP_LEVELS[self.zap_log_level]
        verbosity = int(self.zap_log_level) if self.zap_log_level else self.verbosity
        if verbosity >= _TRACE_VERBOSITY:
            return "trace"
        return "debug" if verbosity >= _DEBUG_VERBOSITY else "info"

    @property
    def pool(self) -> PoolChoice:
        """Return where pool and endpoints come from."""
        return PoolChoice(
            name=self.pool_name,
            namespace=self.pool_namespace or "default",
            selector=self.endpoint_selector,
            target_ports=self.endpoint_target_ports,
            pod_name=self.pod_name,
            file=self.pool_file,
        )

    @property
    def tls(self) -> TlsChoice:
        """Return what TLS the ext_proc port speaks."""
        return TlsChoice(
            transport=self.transport, minimum=self.tls_min_version, suites=self.tls_cipher_suites
        )

    @property
    def metrics_tls(self) -> HttpTls | None:
        """Return what TLS the metrics port speaks; None: plain http."""
        if self.metrics_cert_dir is None:
            return None
        return HttpTls(cert_dir=self.metrics_cert_dir, client_ca_file=self.metrics_client_ca_file)

    @property
    def forced_failure_mode(self) -> FailureMode | None:
        """Return the failure mode that holds whatever the pool says."""
        return None if self.failure_mode is None else FailureMode(self.failure_mode)

    @property
    def guards_metrics(self) -> bool:
        """Return whether the metrics port asks for tokens."""
        return self.pool.is_in_cluster and self.metrics_endpoint_auth is not False

    @property
    def elects_leader(self) -> bool:
        """Return whether replicas elect one of them; that takes an API server."""
        return self.ha_enable_leader_election and self.pool.is_in_cluster

    def contradictions(self) -> Iterator[str]:
        """Yield what can't hold together, naming both flags."""
        for text in self.pool.contradictions():
            # A configuration may say where endpoints are, which is known once it has been read.
            if text is not NO_POOL or not (self.config_file or self.config_text):
                yield text
        if self.config_file and self.config_text:
            yield "--config-file and --config-text exclude each other; give one of them"
        if self.emit_events and not self.pool_name:
            yield "--emit-events takes an InferencePool to write about: give --pool-name"
        if self.secure_serving:
            yield from self.tls.contradictions()
        yield from self._contradictions_of_ports()
        if self.max_request_body_bytes > self.max_buffered_bytes:
            yield (
                f"--max-request-body-bytes {format_quantity(self.max_request_body_bytes)} is more"
                f" than --max-buffered-bytes {format_quantity(self.max_buffered_bytes)};"
                " no request of that size could be buffered"
            )

    def _contradictions_of_ports(self) -> Iterator[str]:
        if self.metrics_endpoint_auth and self.pool_file is not None:
            yield NOBODY_TO_ASK
        if self.metrics_client_ca_file and not self.metrics_cert_dir:
            yield (
                "--metrics-client-ca-file takes --metrics-cert-dir: certificates are shown within"
                " TLS, and the metrics port speaks plain http without one of its own"
            )
        ports = {
            "--grpc-port": self.grpc_port,
            "--grpc-health-port": self.grpc_health_port,
            "--metrics-port": self.metrics_port,
            "--admin-port": self.admin_port,
        }
        for (first, port), (second, other) in combinations(ports.items(), 2):
            if port == other != 0:
                yield f"{first} and {second} are both {port}; each needs a port of its own"
