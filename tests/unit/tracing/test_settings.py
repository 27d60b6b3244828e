from __future__ import annotations

from pathlib import Path

import pytest

from epp.tracing.batches import Batches
from epp.tracing.settings import Exporter, Protocol, TracingSettings, asked_by

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"}
OTLP = {"OTEL_TRACES_EXPORTER": "otlp"}
HTTP = OTLP | {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}


def settings_of(environment: dict[str, str]) -> TracingSettings:
    asked = asked_by(environment)
    assert asked.problems == []
    assert asked.settings is not None
    return asked.settings


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_TRACES_EXPORTER": "", "OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_TRACES_EXPORTER": "none"} | ENDPOINT,
        {"OTEL_SDK_DISABLED": "True"} | OTLP,
        {"OTEL_SERVICE_NAME": "picker", "OTEL_TRACES_SAMPLER_ARG": "1"},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
    ],
    ids=["nothing", "empty", "none", "disabled", "name", "protocol"],
)
def test_there_are_no_traces_unless_an_exporter_or_a_collector_is_named(
    environment: dict[str, str],
) -> None:
    asked = asked_by(environment)

    assert asked.settings is None
    assert asked.problems == []


@pytest.mark.parametrize(
    "environment",
    [ENDPOINT, OTLP, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://traces:4317"}],
    ids=["endpoint", "exporter", "traces endpoint"],
)
def test_a_collector_is_sent_a_tenth_of_the_requests_over_grpc(environment: dict[str, str]) -> None:
    settings = settings_of(environment)

    assert settings.exporter is Exporter.OTLP
    assert settings.protocol is Protocol.GRPC
    assert settings.ratio == 0.1


def test_spans_can_be_printed() -> None:
    settings = settings_of({"OTEL_TRACES_EXPORTER": "Console", "OTEL_TRACES_SAMPLER_ARG": "1"})

    assert settings == TracingSettings(exporter=Exporter.CONSOLE, ratio=1.0)


@pytest.mark.parametrize(
    ("environment", "endpoint"),
    [
        (OTLP, "http://localhost:4317"),
        (OTLP | {"OTEL_EXPORTER_OTLP_INSECURE": "false"}, "https://localhost:4317"),
        (OTLP | {"OTEL_EXPORTER_OTLP_CERTIFICATE": "/ca.crt"}, "https://localhost:4317"),
        (
            OTLP
            | {
                "OTEL_EXPORTER_OTLP_CERTIFICATE": "/ca.crt",
                "OTEL_EXPORTER_OTLP_TRACES_INSECURE": "true",
            },
            "http://localhost:4317",
        ),
        (ENDPOINT, "http://collector:4317"),
        (ENDPOINT | {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://traces:1"}, "http://traces:1"),
        (HTTP, "http://localhost:4318/v1/traces"),
        (HTTP | {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/"}, "http://c:4318/v1/traces"),
        (HTTP | {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/in"}, "http://c:4318/in"),
        (
            OTLP
            | {
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
            },
            "http://localhost:4318/v1/traces",
        ),
    ],
)
def test_the_endpoint_follows_protocol_and_security(
    environment: dict[str, str], endpoint: str
) -> None:
    assert settings_of(environment).endpoint == endpoint


@pytest.mark.parametrize(
    ("variables", "batches"),
    [
        ({}, Batches(queue=2048, size=128, delay=5000)),
        ({"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "512"}, Batches(size=512)),
        ({"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "5000"}, Batches(size=2048)),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "8"}, Batches(queue=8, size=8)),
        ({"OTEL_BSP_SCHEDULE_DELAY": " 10 "}, Batches(delay=10)),
    ],
)
def test_batches_are_small_unless_the_environment_says_otherwise(
    variables: dict[str, str], batches: Batches
) -> None:
    assert settings_of(OTLP | variables).batches == batches
    assert settings_of({"OTEL_TRACES_EXPORTER": "console"} | variables).batches == batches


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("OTEL_BSP_MAX_QUEUE_SIZE", 1_048_576),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 1_048_576),
        ("OTEL_BSP_SCHEDULE_DELAY", 3_600_000),
    ],
)
@pytest.mark.parametrize("value", ["0", "-1", "1.5", "x", "nan", "\u0663", "9" * 9, "9" * 5000])
def test_a_number_that_is_none_is_told_and_replaced(name: str, most: int, value: str) -> None:
    asked = asked_by(OTLP | {name: value})

    assert asked.settings is not None
    assert asked.settings.batches == Batches()
    [problem] = asked.problems
    assert problem.startswith(f"{name}={value[:100]!r} must be a whole number from 1 to {most}; ")


PREFIXES = ("OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_")


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(
    ("of_certificate", "of_key", "named", "told"),
    [
        (True, None, "CLIENT_KEY", "has to be set as well as"),
        (None, True, "CLIENT_CERTIFICATE", "has to be set as well as"),
        (True, False, "CLIENT_KEY", "can't read"),
        (False, True, "CLIENT_CERTIFICATE", "can't read"),
    ],
)
def test_half_a_client_certificate_is_told_as_grpc_would_end_the_process_over_it(
    prefix: str,
    of_certificate: bool | None,
    of_key: bool | None,
    named: str,
    told: str,
    tmp_path: Path,
) -> None:
    (tmp_path / "there").touch()
    files = {True: str(tmp_path / "there"), False: str(tmp_path), None: ""}
    pair = {
        f"{prefix}CLIENT_CERTIFICATE": files[of_certificate],
        f"{prefix}CLIENT_KEY": files[of_key],
    }

    asked = asked_by(OTLP | pair)

    assert asked.settings is None
    [problem] = asked.problems
    assert problem.startswith(f"{prefix}{named}")
    assert told in problem
    assert asked_by(OTLP | pair | {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}).settings


def test_a_whole_client_certificate_is_fine(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    names = (
        f"{prefix}{half}" for prefix in PREFIXES for half in ("CLIENT_CERTIFICATE", "CLIENT_KEY")
    )

    asked = asked_by(OTLP | dict.fromkeys(names, str(tmp_path / "there")))

    assert asked.settings is not None
    assert not asked.problems


@pytest.mark.parametrize("ratio", ["0", "0.25", "1", "1e-3"])
def test_the_ratio_is_any_share(ratio: str) -> None:
    assert settings_of(OTLP | {"OTEL_TRACES_SAMPLER_ARG": ratio}).ratio == float(ratio)


@pytest.mark.parametrize("ratio", ["-0.1", "1.1", "ten", "nan", "inf"])
def test_a_ratio_that_is_none_is_told_and_replaced(ratio: str) -> None:
    asked = asked_by(OTLP | {"OTEL_TRACES_SAMPLER_ARG": ratio})

    assert asked.settings is not None
    assert asked.settings.ratio == 0.1
    assert asked.problems == [
        f"OTEL_TRACES_SAMPLER_ARG='{ratio}' must be a number from 0 to 1; 0.1 is used"
    ]


def test_another_sampler_is_told_and_replaced_with_its_argument() -> None:
    asked = asked_by(OTLP | {"OTEL_TRACES_SAMPLER": "always_on", "OTEL_TRACES_SAMPLER_ARG": "1"})

    assert asked.settings is not None
    assert asked.settings.ratio == 0.1
    assert asked.problems == [
        "OTEL_TRACES_SAMPLER='always_on' must be parentbased_traceidratio; that is used, with"
        " the ratio 0.1"
    ]


def test_another_exporter_is_told_and_none_is_used() -> None:
    asked = asked_by({"OTEL_TRACES_EXPORTER": "zipkin"})

    assert asked.settings is None
    assert asked.problems == [
        "OTEL_TRACES_EXPORTER='zipkin' must be otlp, console or none; no traces are written"
    ]


def test_another_protocol_is_told_and_grpc_is_used() -> None:
    asked = asked_by(OTLP | {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"})

    assert asked.settings is not None
    assert asked.settings.protocol is Protocol.GRPC
    assert asked.problems == [
        "OTEL_EXPORTER_OTLP_PROTOCOL='http/json' must be grpc or http/protobuf; grpc is used"
    ]


def test_http_takes_a_url() -> None:
    asked = asked_by(HTTP | {"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"})

    assert asked.settings is None
    assert asked.problems == [
        "OTEL_EXPORTER_OTLP_ENDPOINT='collector:4318' must start with http:// or https:// when"
        " the protocol is http/protobuf; no traces are written"
    ]


def test_a_header_that_is_none_is_told_without_its_value() -> None:
    asked = asked_by(OTLP | {"OTEL_EXPORTER_OTLP_HEADERS": "a=b,secret token"})

    assert asked.settings is not None
    [problem] = asked.problems
    assert problem.startswith("OTEL_EXPORTER_OTLP_HEADERS: each part must be name=value")
    assert "secret" not in problem


@pytest.mark.parametrize(
    ("endpoint", "shown"),
    [
        ("http://collector:4317", "http://collector:4317"),
        ("http://user:secret@collector:4318/v1/traces", "http://collector:4318/v1/traces"),
        ("https://collector/v1/traces?key=secret", "https://collector/v1/traces"),
        ("collector:4317", "collector:4317"),
        ("user:secret@collector:4317", "collector:4317"),
        ("http://user:a/secret@collector:4317", "http://collector:4317"),
        ("http://collector/v1/traces?key=a@secret", "http://collector/v1/traces"),
    ],
)
def test_a_password_is_not_shown(endpoint: str, shown: str) -> None:
    settings = TracingSettings(exporter=Exporter.OTLP, endpoint=endpoint)

    assert settings.collector == shown
