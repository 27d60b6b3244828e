"""Flags of other Endpoint Pickers that deployments pass, and what becomes of them here.

What asks for something this version can't do is an error, never silently ignored. The rest is
accepted, with a warning where the flag wants a difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from epp.app.flag_kinds import Seconds, Words, choice
from epp.app.flags import Flag, Section, Standing

_BUILT_IN = "this version has built-in plugins and profiles only"
_GO_LOGGER = "log lines are shaped by --log-format, -v and --zap-log-level"
_NO_SCRAPING = "this version does not scrape model servers"
_ENGINE_CONFIGS = "use engineConfigs in EndpointPickerConfig instead"
_PLAIN_METRICS = "the metrics port has no authentication"

no_effect = partial(Flag, Section.ELSEWHERE, standing=Standing.NO_EFFECT)
not_available = partial(Flag, Section.ELSEWHERE, standing=Standing.NOT_AVAILABLE)
removed = partial(Flag, Section.ELSEWHERE, standing=Standing.REMOVED, reason=_ENGINE_CONFIGS)


TlsVersion = Annotated[
    str, choice("", "VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceFlags:
    """What the reference's flags without a counterpart in `ServeOptions` were set to."""

    config_file: Annotated[
        str,
        not_available("EndpointPickerConfig to read", reason=_BUILT_IN),
    ] = ""
    config_text: Annotated[
        str,
        not_available("EndpointPickerConfig as text", reason=_BUILT_IN),
    ] = ""
    allow_experimental_plugins: Annotated[
        bool,
        no_effect("allow plugins in Alpha", reason=_BUILT_IN),
    ] = False

    emit_endpoint_scores: Annotated[
        bool,
        no_effect(
            "scores in the metadata x-gateway-destination-endpoint-scores",
            reason="the built-in pick gives no scores",
        ),
    ] = False

    tls_min_version: Annotated[
        TlsVersion,
        not_available(
            "oldest TLS version",
            reason="the oldest version accepted is always VersionTLS12",
            harmless=("VersionTLS12",),
        ),
    ] = ""
    tls_cipher_suites: Annotated[
        Words,
        not_available(
            "cipher suites for TLS 1.2",
            reason="the transport's own choice can't be changed",
        ),
    ] = ()

    metrics_endpoint_auth: Annotated[
        bool,
        not_available(
            "token and access review on the metrics port; true in a cluster only",
            reason=f"{_PLAIN_METRICS}, it needs an API server to ask; restrict access otherwise"
            " and set --metrics-endpoint-auth=false",
        ),
    ] = True
    metrics_client_ca_file: Annotated[
        str,
        not_available(
            "CA of client certificates on the metrics port",
            reason=_PLAIN_METRICS,
        ),
    ] = ""
    enable_pprof: Annotated[
        bool,
        no_effect(
            "Go profiles on the metrics port",
            reason="there are no Go profiles here",
        ),
    ] = True
    tracing: Annotated[
        bool,
        no_effect(
            "OpenTelemetry traces",
            reason="this version writes no traces",
        ),
    ] = True
    refresh_metrics_interval: Annotated[
        Seconds,
        no_effect("pause between scrapes of an endpoint", reason=_NO_SCRAPING),
    ] = 0.05
    refresh_prometheus_metrics_interval: Annotated[
        Seconds,
        no_effect(
            "pause between updates of the pool's gauges",
            reason="gauges of the pool follow each of its changes at once",
        ),
    ] = 5.0
    metrics_staleness_threshold: Annotated[
        Seconds,
        no_effect("age from which metrics are not used", reason=_NO_SCRAPING),
    ] = 2.0
    zap_encoder: Annotated[
        str,
        no_effect("json or console", reason=_GO_LOGGER, harmless=("json",)),
    ] = ""
    zap_devel: Annotated[
        bool,
        no_effect("development mode", reason=_GO_LOGGER),
    ] = False
    zap_stacktrace_level: Annotated[
        str,
        no_effect("level that prints a stack", reason=_GO_LOGGER),
    ] = ""
    zap_time_encoding: Annotated[str, no_effect("how times are written", reason=_GO_LOGGER)] = ""

    total_queued_requests_metric: Annotated[str, removed("waiting requests")] = (
        "vllm:num_requests_waiting"
    )
    total_running_requests_metric: Annotated[str, removed("running requests")] = (
        "vllm:num_requests_running"
    )
    kv_cache_usage_percentage_metric: Annotated[str, removed("use of the KV cache")] = (
        "vllm:kv_cache_usage_perc"
    )
    lora_info_metric: Annotated[str, removed("LoRA adapters")] = "vllm:lora_requests_info"
    cache_info_metric: Annotated[str, removed("size of the KV cache")] = "vllm:cache_config_info"

    def contradictions(self) -> Iterator[str]:
        """Yield what can't hold together, naming both flags."""
        if self.config_file and self.config_text:
            yield "--config-file and --config-text exclude each other; give one of them"
