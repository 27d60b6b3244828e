"""The command line of `epp simulator`."""

from __future__ import annotations

import argparse

import msgspec

from epp.simulator.failures import Failures
from epp.simulator.settings import Mode, SimulatorSettings
from epp.support.argument_types import argument_type
from epp.support.durations import parse_duration

_FAILURES = """\
POST /simulator/failures changes them while it runs, and GET shows them. The body is JSON such as
{"status": 503, "rate": 50}; other keys are "stall": true, "cut_stream_after": N and
"slow_metrics_seconds": N. What it does not name is switched off, so {} mends everything.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    _add_server(parser.add_argument_group("Server"))
    _add_models(parser.add_argument_group("Models and text"))
    _add_engine(parser.add_argument_group("Engine (durations as in 20ms, 1.5s)"))
    _add_failures(parser.add_argument_group("Failures", _FAILURES))


def _add_server(group: argparse._ArgumentGroup) -> None:
    default = SimulatorSettings()
    group.add_argument(
        "--host", default=default.host, help="address to listen on (default %(default)s)"
    )
    group.add_argument(
        "--port", type=int, default=default.port, help="0: any free one (default %(default)s)"
    )
    group.add_argument(
        "--name", default="", help="value of the header x-simulator (default the address)"
    )
    group.add_argument(
        "--exit-with-parent",
        action="store_true",
        help="end when standard input ends, as it does when the process that started this one dies",
    )


def _add_models(group: argparse._ArgumentGroup) -> None:
    default = SimulatorSettings()
    group.add_argument("--model", default=default.model, help="base model (default %(default)s)")
    group.add_argument(
        "--served-model-name",
        nargs="+",
        default=[],
        metavar="NAME",
        help="names of the base model in requests (default --model)",
    )
    group.add_argument(
        "--lora-modules",
        nargs="+",
        type=argument_type(_adapter_name),
        default=[],
        metavar="NAME",
        help="adapters: a name, name=path, or JSON with a name, as in vLLM",
    )
    group.add_argument(
        "--mode",
        choices=[mode.value for mode in Mode],
        default=default.mode.value,
        help="answer with random words or with the prompt (default %(default)s)",
    )
    group.add_argument(
        "--default-output-tokens",
        type=int,
        default=default.default_output_tokens,
        metavar="N",
        help="length of random answers to requests without a limit (default %(default)s)",
    )
    group.add_argument(
        "--seed",
        type=int,
        default=default.seed,
        help="the same seed gives the same texts, ids and failures (default %(default)s)",
    )


def _add_engine(group: argparse._ArgumentGroup) -> None:
    default = SimulatorSettings()
    for flag, purpose in (
        ("max-num-seqs", "requests that run at the same time"),
        ("max-waiting-queue-length", "requests that wait; one more is answered with 429"),
        ("max-loras", "adapters that run at the same time"),
        ("block-size", "tokens in a block of the cache"),
        ("kv-cache-size", "blocks in the cache"),
    ):
        value = getattr(default, flag.replace("-", "_"))
        group.add_argument(
            f"--{flag}", type=int, default=value, metavar="N", help=f"{purpose} (default {value})"
        )
    for flag, purpose in (
        ("time-to-first-token", "prefill time whatever the prompt"),
        ("prefill-time-per-token", "prefill time for each token the prefix cache does not hold"),
        ("inter-token-latency", "time for each further token"),
    ):
        group.add_argument(
            f"--{flag}",
            type=argument_type(parse_duration),
            default=0.0,
            metavar="DURATION",
            help=f"{purpose} (default 0)",
        )
    group.add_argument(
        "--time-factor-under-load",
        type=float,
        default=default.time_factor_under_load,
        metavar="FACTOR",
        help="how much slower a server with all its slots taken is (default %(default)s)",
    )
    group.add_argument(
        "--enable-prefix-caching",
        action=argparse.BooleanOptionalAction,
        default=default.enable_prefix_caching,
        help="keep blocks for prompts that begin alike (default on)",
    )


def _add_failures(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--failure-status", type=int, metavar="STATUS", help="answer inference with this status"
    )
    group.add_argument(
        "--failure-stall", action="store_true", help="read inference requests, never answer them"
    )
    group.add_argument(
        "--failure-cut-stream-after",
        type=int,
        metavar="N",
        help="close the connection after N events of a stream",
    )
    group.add_argument(
        "--failure-injection-rate",
        type=float,
        default=100.0,
        metavar="PERCENT",
        help="share of the requests that the flags above hit (default 100)",
    )
    group.add_argument(
        "--failure-slow-metrics",
        type=argument_type(parse_duration),
        default=0.0,
        metavar="DURATION",
        help="answer /metrics this much later (default 0)",
    )


def settings_from(namespace: argparse.Namespace) -> SimulatorSettings:
    """Check what was given together; raises `ConfigError`."""
    return SimulatorSettings(
        host=namespace.host,
        port=namespace.port,
        name=namespace.name,
        model=namespace.model,
        served_model_names=tuple(namespace.served_model_name),
        lora_modules=tuple(namespace.lora_modules),
        max_loras=namespace.max_loras,
        max_num_seqs=namespace.max_num_seqs,
        max_waiting_queue_length=namespace.max_waiting_queue_length,
        mode=Mode(namespace.mode),
        default_output_tokens=namespace.default_output_tokens,
        time_to_first_token=namespace.time_to_first_token,
        prefill_time_per_token=namespace.prefill_time_per_token,
        inter_token_latency=namespace.inter_token_latency,
        time_factor_under_load=namespace.time_factor_under_load,
        block_size=namespace.block_size,
        kv_cache_size=namespace.kv_cache_size,
        enable_prefix_caching=namespace.enable_prefix_caching,
        seed=namespace.seed,
        failures=Failures(
            status=namespace.failure_status,
            stall=namespace.failure_stall,
            cut_stream_after=namespace.failure_cut_stream_after,
            slow_metrics_seconds=namespace.failure_slow_metrics,
            rate=namespace.failure_injection_rate,
        ),
    )


def run_command(namespace: argparse.Namespace) -> int:
    """Serve until told to end; the exit code. Raises `ConfigError`."""
    settings = settings_from(namespace)
    # Late, so that declaring the flags does not cost the import of an HTTP server.
    from epp.simulator.process import run_until_told

    return run_until_told(settings, exit_with_parent=namespace.exit_with_parent)


def _adapter_name(text: str) -> str:
    if not text.startswith("{"):
        return text.partition("=")[0]
    try:
        return msgspec.json.decode(text, type=_AdapterSpec).name
    except msgspec.MsgspecError as error:
        raise ValueError(f"{text!r} is not an adapter: {error}") from error


class _AdapterSpec(msgspec.Struct):
    name: str
