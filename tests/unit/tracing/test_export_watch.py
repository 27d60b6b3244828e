from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanContext, TraceFlags
from structlog.testing import capture_logs
from structlog.typing import EventDict

from epp.support.line_pace import PAUSE_SECONDS
from epp.tracing.export_watch import SdkLog, WatchedExporter
from epp.tracing.span_losses import SpanLosses

GRPC = logging.getLogger("opentelemetry.exporter.otlp.proto.grpc.exporter")
SPAN = ReadableSpan("a", context=SpanContext(1, 1, False, TraceFlags(1)))


class Scripted(SpanExporter):
    """Does what comes next."""

    def __init__(self, *acts: Callable[[], SpanExportResult]) -> None:
        self._acts = iter(acts)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return next(self._acts)()


def taken() -> SpanExportResult:
    return SpanExportResult.SUCCESS


def refused() -> SpanExportResult:
    GRPC.warning("Transient error %s", "UNAVAILABLE")
    GRPC.error("Failed to export")
    return SpanExportResult.FAILURE


def raising() -> SpanExportResult:
    raise ValueError("a secret")


@pytest.fixture
def sdk_log() -> Iterator[SdkLog]:
    sdk_log = SdkLog()
    yield sdk_log
    sdk_log.close()


@pytest.fixture
def lines() -> Iterator[list[EventDict]]:
    with capture_logs() as lines:
        yield lines


def export(exporter: WatchedExporter, times: int) -> None:
    for _ in range(times):
        exporter.export([SPAN, SPAN])


def test_failures_are_told_on_a_change_of_state_with_the_first_that_was_said(
    sdk_log: SdkLog, lines: list[EventDict], caplog: pytest.LogCaptureFixture
) -> None:
    scripted = Scripted(taken, refused, refused, refused, taken, taken)
    losses = SpanLosses(queue=100)

    export(WatchedExporter(scripted, "http://c:4317", sdk_log, losses), 6)

    assert [line["event"] for line in lines] == ["spans are not taken", "spans are taken again"]
    assert lines[0]["reason"] == "Transient error UNAVAILABLE"
    assert lines[1]["lost"] == losses.by_reason()["not-taken"] == 6
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("endpoint", "said", "told"),
    [
        (
            "http://user:S3CRET@c:4317",
            "exporting to user:S3CRET@c:4317, resolving S3CRET@c",
            "exporting to c:4317, resolving c",
        ),
        (
            "https://a b:S3CRET@c/v1/traces?key=S3CRET",
            "no parse: https://a b:S3CRET@c/v1/traces?key=S3CRET",
            "no parse: https://c/v1/traces",
        ),
        (
            "https://c/v1/traces?key=S3CRET(\u00e9)",
            "Max retries exceeded with url: /v1/traces?key=S3CRET%28%C3%A9%29 (Caused by it)",
            "Max retries exceeded with url: /v1/traces (Caused by it)",
        ),
    ],
)
def test_a_reason_is_told_without_the_secrets_of_the_url(
    endpoint: str, said: str, told: str, sdk_log: SdkLog, lines: list[EventDict]
) -> None:
    def failing() -> SpanExportResult:
        GRPC.error(said)
        return SpanExportResult.FAILURE

    export(WatchedExporter(Scripted(failing), endpoint, sdk_log, SpanLosses(100)), 1)

    assert [line["reason"] for line in lines] == [told]
    assert "S3CRET" not in str(lines)


def test_an_exporter_that_raises_fails_without_its_words(
    sdk_log: SdkLog, lines: list[EventDict]
) -> None:
    export(WatchedExporter(Scripted(raising), "http://c:4317", sdk_log, SpanLosses(100)), 1)

    assert [line["reason"] for line in lines] == ["ValueError"]


def test_a_queue_that_is_full_while_spans_are_taken_is_told_once_a_minute(
    sdk_log: SdkLog, lines: list[EventDict]
) -> None:
    clock = [0.0]
    exporter = WatchedExporter(
        Scripted(*[taken] * 4), "", sdk_log, SpanLosses(100), now=lambda: clock[0]
    )

    for _ in range(3):
        sdk_log.is_full = True
        export(exporter, 1)
    clock[0] = PAUSE_SECONDS
    sdk_log.is_full = True
    export(exporter, 1)

    assert len(lines) == 2
    assert all(line["event"].startswith("spans are lost") for line in lines)


def test_the_sdk_is_heard_when_a_span_does_not_fit(
    sdk_log: SdkLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without the SDK's own filter, which lets the same be said every 20 seconds only.
    monkeypatch.setattr(
        logging.getLogger("opentelemetry.sdk._shared_internal"), "filters", [sdk_log]
    )
    processor = BatchSpanProcessor(
        Scripted(*[taken] * 4), 2, max_export_batch_size=2, schedule_delay_millis=3_600_000
    )
    # Held as while a batch is being sent.
    with processor._batch_processor._export_lock:
        for _ in range(3):
            processor.on_end(SPAN)
    processor.shutdown()  # type: ignore[no-untyped-call]  # the SDK's

    assert sdk_log.is_full


def test_the_sdk_may_talk_again_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    SdkLog().close()

    GRPC.warning("hello")

    assert caplog.messages == ["hello"]
