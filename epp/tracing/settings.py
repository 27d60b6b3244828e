"""What OpenTelemetry's environment variables ask for, as far as it is supported here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from epp.tracing.batches import Batches, read_batches
from epp.tracing.client_pair import problem_of_client_pair
from epp.tracing.collector_url import shown_url

EXPORTER = "OTEL_TRACES_EXPORTER"
SDK_DISABLED = "OTEL_SDK_DISABLED"
SAMPLER = "OTEL_TRACES_SAMPLER"
SAMPLER_ARGUMENT = "OTEL_TRACES_SAMPLER_ARG"
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_INSECURE = ("OTEL_EXPORTER_OTLP_TRACES_INSECURE", "OTEL_EXPORTER_OTLP_INSECURE")
_CERTIFICATE = ("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE")

ONLY_SAMPLER = "parentbased_traceidratio"
DEFAULT_RATIO = 0.1
_LOCAL_GRPC = "localhost:4317"
_LOCAL_HTTP = "http://localhost:4318"
_HTTP_PATH = "/v1/traces"
_HEADERS = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")


class Exporter(StrEnum):
    """Where spans go."""

    OTLP = "otlp"
    CONSOLE = "console"


class Protocol(StrEnum):
    """How OTLP is spoken."""

    GRPC = "grpc"
    HTTP = "http/protobuf"


@dataclass(frozen=True, slots=True, kw_only=True)
class TracingSettings:
    """Where spans go, and of how many requests."""

    exporter: Exporter
    protocol: Protocol = Protocol.GRPC
    endpoint: str = ""
    """URL of the collector; empty with `CONSOLE`."""
    ratio: float = DEFAULT_RATIO
    """Share of the requests without a parent."""
    batches: Batches = field(default_factory=Batches)

    @property
    def collector(self) -> str:
        """The endpoint as it may be logged: without a password."""
        return shown_url(self.endpoint)


@dataclass(slots=True)
class Asked:
    """What the environment asks for, and what of it can't be had."""

    settings: TracingSettings | None = None
    """None: no traces."""
    problems: list[str] = field(default_factory=list)


def asked_by(environment: Mapping[str, str]) -> Asked:
    """Read the variables; what is wrong with one is a problem, and its default holds.

    Traces are written only where an exporter or a collector is named.
    """
    asked = Asked()
    if _value(environment, SDK_DISABLED).lower() == "true":
        return asked
    exporter = _exporter(environment, asked)
    if exporter is None:
        return asked
    ratio = _ratio(environment, asked)
    batches = read_batches(environment, asked.problems)
    if exporter is Exporter.CONSOLE:
        asked.settings = TracingSettings(exporter=exporter, ratio=ratio, batches=batches)
        return asked
    _check_headers(environment, asked)
    protocol = _protocol(environment, asked)
    endpoint = _endpoint(environment, protocol, asked)
    if protocol is Protocol.GRPC and (problem := problem_of_client_pair(environment)):
        asked.problems.append(f"{problem}; no traces are written")
    elif endpoint:
        asked.settings = TracingSettings(
            exporter=exporter, protocol=protocol, endpoint=endpoint, ratio=ratio, batches=batches
        )
    return asked


def _value(environment: Mapping[str, str], name: str) -> str:
    # An empty variable counts as one that is not there, as OpenTelemetry has it.
    return environment.get(name, "").strip()


def _exporter(environment: Mapping[str, str], asked: Asked) -> Exporter | None:
    value = _value(environment, EXPORTER).lower()
    if not value:
        named = _value(environment, TRACES_ENDPOINT) or _value(environment, ENDPOINT)
        return Exporter.OTLP if named else None
    if value == "none":
        return None
    if value in tuple(Exporter):
        return Exporter(value)
    asked.problems.append(
        f"{EXPORTER}={value!r} must be otlp, console or none; no traces are written"
    )
    return None


def _ratio(environment: Mapping[str, str], asked: Asked) -> float:
    sampler = _value(environment, SAMPLER)
    if sampler not in ("", ONLY_SAMPLER):
        asked.problems.append(
            f"{SAMPLER}={sampler!r} must be {ONLY_SAMPLER}; that is used,"
            f" with the ratio {DEFAULT_RATIO}"
        )
        return DEFAULT_RATIO
    text = _value(environment, SAMPLER_ARGUMENT)
    if not text:
        return DEFAULT_RATIO
    try:
        ratio = float(text)
    except ValueError:
        ratio = math.nan
    if 0 <= ratio <= 1:
        return ratio
    asked.problems.append(
        f"{SAMPLER_ARGUMENT}={text!r} must be a number from 0 to 1; {DEFAULT_RATIO} is used"
    )
    return DEFAULT_RATIO


def _protocol(environment: Mapping[str, str], asked: Asked) -> Protocol:
    for name in PROTOCOLS:
        value = _value(environment, name).lower()
        if value in tuple(Protocol):
            return Protocol(value)
        if value:
            asked.problems.append(
                f"{name}={value!r} must be {' or '.join(Protocol)}; {Protocol.GRPC} is used"
            )
            break
    return Protocol.GRPC


def _endpoint(environment: Mapping[str, str], protocol: Protocol, asked: Asked) -> str:
    name = TRACES_ENDPOINT if _value(environment, TRACES_ENDPOINT) else ENDPOINT
    value = _value(environment, name)
    if protocol is Protocol.GRPC:
        return value or _local_collector(environment)
    if not value:
        return _LOCAL_HTTP + _HTTP_PATH
    if not value.startswith(("http://", "https://")):
        asked.problems.append(
            f"{name}={shown_url(value)!r} must start with http:// or https:// when the"
            f" protocol is {protocol}; no traces are written"
        )
        return ""
    # That of all signals is where their paths begin; that of traces is taken as it is.
    return value if name == TRACES_ENDPOINT else value.rstrip("/") + _HTTP_PATH


def _local_collector(environment: Mapping[str, str]) -> str:
    """Plaintext, unless a variable says that the connection is to be secured."""
    insecure = _first(environment, _INSECURE)
    is_plain = insecure.lower() == "true" if insecure else not _first(environment, _CERTIFICATE)
    return f"{'http' if is_plain else 'https'}://{_LOCAL_GRPC}"


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((value for name in names if (value := _value(environment, name))), "")


def _check_headers(environment: Mapping[str, str], asked: Asked) -> None:
    for name in _HEADERS:
        parts = _value(environment, name).split(",")
        if any("=" not in part for part in parts if part.strip()):
            # Not quoted: tokens are in there.
            asked.problems.append(
                f"{name}: each part must be name=value, with commas between; those that are not"
                " are not sent"
            )
