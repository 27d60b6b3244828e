from __future__ import annotations

import pytest

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
    ("variables", "batch"),
    [
        ({}, 128),
        ({"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "512"}, None),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "8"}, None),
    ],
)
def test_batches_are_small_unless_the_environment_says_otherwise(
    variables: dict[str, str], batch: int | None
) -> None:
    assert settings_of(OTLP | variables).batch == batch
    assert settings_of({"OTEL_TRACES_EXPORTER": "console"} | variables).batch == batch


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
    ],
)
def test_a_password_is_not_shown(endpoint: str, shown: str) -> None:
    settings = TracingSettings(exporter=Exporter.OTLP, endpoint=endpoint)

    assert settings.collector == shown
