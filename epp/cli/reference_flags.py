"""Flags of other Endpoint Pickers that deployments pass, and what becomes of them here.

Some are refused, as there. The rest is accepted, with a warning where the flag wants a difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from epp.app.flags import Flag, Section, Standing

_GO_LOGGER = "log lines are shaped by --log-format, -v and --zap-log-level"
_ENGINE_CONFIGS = "use engineConfigs in EndpointPickerConfig instead"

no_effect = partial(Flag, Section.ELSEWHERE, standing=Standing.NO_EFFECT)
removed = partial(Flag, Section.ELSEWHERE, standing=Standing.REMOVED, reason=_ENGINE_CONFIGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceFlags:
    """What the reference's flags without a counterpart in `ServeOptions` were set to."""

    enable_pprof: Annotated[
        bool,
        no_effect(
            "Go profiles on the metrics port",
            reason="there are no Go profiles here",
        ),
    ] = True
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
