"""`epp serve` with an environment that asks for traces, rightly and wrongly."""

from __future__ import annotations

import json
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.pickers.gateway_client import gateway_client
from tests.fakes.programs.program import Program
from tests.fakes.programs.serving import ServingPicker, serving_picker

BODY = b'{"model":"m","prompt":"a secret"}'
LISTENING = """
import sys
sys.modules.update(dict.fromkeys({absent!r}))  # to import one of them is an error
from pathlib import Path
from epp.app import application
from epp.app.application import Application
from tests.fakes.pickers.applications import options_for_tests

Application(options_for_tests(pool_file=Path("pool.yaml")))
print("loaded", sorted(name for name in sys.modules if name.startswith("opentelemetry.sdk")))
"""


@pytest.fixture
def silent_collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Lets everybody connect, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "1")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
        yield listener


async def ask(picker: ServingPicker) -> None:
    async with gateway_client(picker.ext_proc_port) as client:
        exchange = client.exchange()
        await exchange.post(BODY)
        await exchange.picked()
        await exchange.response_headers({":status": "200"}, end=True)
        await exchange.answer()
        await exchange.half_close()


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
async def test_a_collector_that_never_answers_holds_up_neither_requests_nor_the_end(
    protocol: str,
    silent_collector: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    with serving_picker(tmp_path, ["--shutdown-grace=1s"]) as picker:
        await ask(picker)
        connection, _ = silent_collector.accept()
        with connection:
            for _ in range(20):
                await ask(picker)
            code = picker.stop()

    # It would have ended by force, and with 1, had tracing held it up.
    assert code == 0, picker.output()
    assert "Traceback" not in picker.output()


async def test_a_collector_that_is_not_there_gets_one_line_in_the_log(
    silent_collector: socket.socket, tmp_path: Path
) -> None:
    silent_collector.close()
    with serving_picker(tmp_path, ["--shutdown-grace=1s"]) as picker:
        for _ in range(20):
            await ask(picker)
        assert picker.stop() == 0

    lines = [json.loads(line) for line in picker.output().splitlines()]
    complaints = [line for line in lines if line["level"] in ("warning", "error")]
    told = [line for line in complaints if re.search("span|opentelemetry|otlp", str(line), re.I)]
    assert [line["msg"] for line in told] == ["spans are not taken"]
    assert "refused" in told[0]["reason"] or "UNAVAILABLE" in told[0]["reason"]


@pytest.mark.parametrize(
    ("variables", "msg"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "tracing is not as asked for"),
        ({"OTEL_TRACES_SAMPLER": "always_on"}, "tracing is not as asked for"),
        (
            {"OTEL_EXPORTER_OTLP_COMPRESSION": "brotli"},
            "no traces: OpenTelemetry refuses its variables OTEL_*",
        ),
        (
            {"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"},
            "no traces: OpenTelemetry refuses its variables OTEL_*",
        ),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "-1"}, "tracing is not as asked for"),
        (
            {
                "OTEL_EXPORTER_OTLP_CLIENT_KEY": "/proc/version",
                "OTEL_EXPORTER_OTLP_CERTIFICATE": "/proc/version",
                "OTEL_EXPORTER_OTLP_ENDPOINT": "https://127.0.0.1:1",
            },
            "tracing is not as asked for",
        ),
    ],
)
async def test_what_is_wrong_with_a_variable_is_told_and_requests_are_served(
    variables: dict[str, str],
    msg: str,
    silent_collector: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with serving_picker(tmp_path, ["--shutdown-grace=1s"]) as picker:
        await ask(picker)
        line = json.loads(picker.wait_for_line(msg))
        picker.kill()

    assert line["level"] == "error"
    name, value = next(iter(variables.items()))
    assert name in json.dumps(line) or value in json.dumps(line)


async def test_spans_can_be_printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "1")
    with serving_picker(tmp_path, ["--shutdown-grace=1s"]) as picker:
        await ask(picker)
        assert picker.stop() == 0

    assert '"name": "gateway.request"' in picker.output()
    assert "secret" not in picker.output()


@pytest.mark.parametrize(
    ("variables", "loaded"),
    [
        ({}, False),
        ({"OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
    ],
)
def test_the_sdk_is_loaded_only_for_those_who_want_traces(
    variables: dict[str, str], loaded: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    output = built_with(variables, (), monkeypatch, tmp_path)

    assert ("opentelemetry.sdk.trace" in output) is loaded


def test_without_the_sdk_the_log_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    output = built_with(
        {"OTEL_TRACES_EXPORTER": "otlp"}, ("opentelemetry.sdk.trace",), monkeypatch, tmp_path
    )

    assert "no traces: OpenTelemetry is not installed" in output
    assert "pip install -e '.[otlp]' in the checkout" in output
    assert "loaded" in output


def built_with(
    variables: dict[str, str],
    absent: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
) -> str:
    """What a process prints in which the application is put together."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    (folder / "pool.yaml").write_text("endpoints: [{name: a, address: 127.0.0.1, port: 1}]")
    script = LISTENING.format(absent=absent)
    program = Program("built", [sys.executable, "-c", script], folder / "log", folder=folder)
    program.start()
    assert program.wait() == 0, program.output()
    return program.output()
