"""From the command line of `epp serve` to its options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from types import MappingProxyType
from typing import Any

from epp.app.flags import Declaration, Standing, declarations_of
from epp.app.options import SHORTEST_REFRESH, ServeOptions
from epp.cli.flags import CommandLine, UsageError, read_command_line
from epp.cli.reference_flags import ReferenceFlags
from epp.support.durations import format_duration

_IN_CLUSTER = (
    "pool_namespace",
    "pod_name",
    "kubeconfig",
    "kube_context",
    "ha_enable_leader_election",
)
_OF_TLS = ("cert_path", "tls_min_version", "tls_cipher_suites")


@dataclass(frozen=True, slots=True)
class ServeCommand:
    """What `epp serve` was asked to do."""

    options: ServeOptions
    warnings: tuple[str, ...]
    wants_help: bool = False


def serve_flags() -> tuple[Declaration, ...]:
    """Return every flag `epp serve` knows."""
    return declarations_of(ServeOptions) + declarations_of(ReferenceFlags)


def parse_serve(
    arguments: Sequence[str], environment: Mapping[str, str] = MappingProxyType({})
) -> ServeCommand:
    """Return the options; UsageError has everything that is wrong with the command line."""
    flags = serve_flags()
    line = read_command_line(arguments, flags, environment)
    if line.wants_help:
        return ServeCommand(ServeOptions(), (), wants_help=True)
    options, problems = options_of(line)
    if problems:
        raise UsageError(*problems)
    return ServeCommand(options, tuple(_warnings(flags, line.values, options)))


def options_of(line: CommandLine) -> tuple[ServeOptions, list[str]]:
    """The options that a line of `serve_flags` and others means, and everything wrong with it."""
    options = ServeOptions(**_values_for(ServeOptions, {**line.values, **line.defaults}))
    contradictions = list(options.contradictions())
    return options, [
        *line.problems,
        *_refused(serve_flags(), line.values),
        *(text for text in contradictions if not _is_about(line.unreadable, text)),
    ]


def _values_for(options: type, values: Mapping[str, Any]) -> dict[str, Any]:
    names = {flag.option for flag in declarations_of(options)}
    return {option: value for option, value in values.items() if option in names}


def _is_about(spellings: Sequence[str], contradiction: str) -> bool:
    """Whether the contradiction may be due to a default standing in for an unreadable value."""
    return any(spelling in contradiction for spelling in spellings)


def _refused(flags: Sequence[Declaration], values: Mapping[str, Any]) -> Iterator[str]:
    for declaration in flags:
        if declaration.flag.standing is Standing.REMOVED and declaration.option in values:
            reason = declaration.flag.reason
            yield f"{declaration.spelling} is deprecated and can't be set: {reason}"


def _warnings(
    flags: Sequence[Declaration], values: Mapping[str, Any], options: ServeOptions
) -> Iterator[str]:
    for declaration in flags:
        if (
            declaration.flag.standing is Standing.NO_EFFECT
            and declaration.option in values
            and _asks_for_something(declaration, values)
        ):
            yield f"{declaration.spelling} has no effect: {declaration.flag.reason}"
    if options.pool_file is not None:
        yield from _idle(flags, values, _IN_CLUSTER, "--pool-file")
    if not options.secure_serving:
        yield from _idle(flags, values, _OF_TLS, "--secure-serving=false")
    if options.refresh_metrics_interval < SHORTEST_REFRESH:
        yield f"--refresh-metrics-interval is raised to {format_duration(SHORTEST_REFRESH)}"
    if not ip_address(options.admin_address).is_loopback:
        yield (
            f"--admin-address={options.admin_address}: the admin port asks nobody who they are, so"
            " whoever reaches it reads request ids, models, endpoints and the configuration"
        )
    if options.enable_cert_reload and options.cert_path is None:
        yield "--enable-cert-reload has no effect without --cert-path"


def _idle(
    flags: Sequence[Declaration], values: Mapping[str, Any], options: Sequence[str], cause: str
) -> Iterator[str]:
    for declaration in flags:
        if declaration.option in options and values.get(declaration.option):
            yield f"{declaration.spelling} has no effect with {cause}"


def _asks_for_something(declaration: Declaration, values: Mapping[str, Any]) -> bool:
    value = values[declaration.option]
    return bool(value) and value not in declaration.flag.harmless
