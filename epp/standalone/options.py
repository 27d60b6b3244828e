"""What a standalone run can be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epp.app.flag_kinds import ErrorFormatName, FailureModeName
from epp.standalone.envoy_clusters import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class StandaloneOptions:
    """What a standalone run was asked for. Taken ports move to the next free ones."""

    simulators: int = 0
    endpoints: tuple[Address, ...] = ()
    """Model servers of the user's own; hosts may be names.

    Without simulators, endpoints and a pool file the configuration says where endpoints are.
    """
    pool_file: Path | None = None
    failure_mode: FailureModeName | None = None
    """None: as the pool says."""
    config_file: Path | None = None
    """None: the built-in default configuration."""
    allow_experimental_plugins: bool = False
    decision_header: bool = False
    emit_endpoint_scores: bool = False
    model: str | None = None
    """Name the simulators answer to; None: theirs."""
    port: int = 8080
    listen_address: str = "127.0.0.1"
    grpc_port: int = 9002
    grpc_health_port: int = 9003
    metrics_port: int = 9090
    admin_port: int = 9091
    envoy_admin_port: int = 19000
    envoy_access_log: Path | None = None
    max_request_body_bytes: int = 64 << 20
    response_bodies: bool = True
    """Whether Envoy shows response bodies to the picker."""
    error_format: ErrorFormatName = "json"
    """Clients of a demonstration are OpenAI's and Anthropic's; they read errors as JSON."""
    picker: Mapping[str, Any] = field(default_factory=dict)
    """Options of `ServeOptions` that go to the picker as they were given."""
    verbose: bool = False
