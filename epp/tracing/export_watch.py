"""Tells the log when spans stop being taken, and when they are taken again; not in between."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import structlog
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from epp.support.line_pace import LinePace
from epp.support.safe_text import printable
from epp.support.wordless import kind_of
from epp.tracing.collector_url import shown_url, without_secrets
from epp.tracing.span_losses import SpanLosses

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

log = structlog.get_logger(__name__)

MOST_REASON = 512
_QUEUE = "opentelemetry.sdk._shared_internal"
_HUSHED = (
    # Warns, again and again, when a span does not fit into it.
    _QUEUE,
    # A line, or two, for each batch that is not taken.
    "opentelemetry.exporter.otlp.proto.grpc.exporter",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    # Quotes OTEL_EXPORTER_OTLP_HEADERS, where tokens are.
    "opentelemetry.util.re",
)


class SdkLog(logging.Filter):
    """Keeps what the SDK says of a failure, instead of letting anything into the log."""

    def __init__(self) -> None:
        super().__init__()
        self.reason = ""
        """The first that was said since it was emptied: later lines tell of the consequences."""
        self.is_full = False
        """Whether a span did not fit into the queue."""
        for name in _HUSHED:
            logging.getLogger(name).addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Nothing of it goes on."""
        if record.name == _QUEUE:
            self.is_full = self.is_full or record.levelno == logging.WARNING
        else:
            self.reason = self.reason or record.getMessage()
        return False

    def close(self) -> None:
        """Let the SDK talk again."""
        for name in _HUSHED:
            logging.getLogger(name).removeFilter(self)


class WatchedExporter(SpanExporter):
    """An exporter whose failures are told on a change of state."""

    def __init__(
        self,
        exporter: SpanExporter,
        endpoint: str,
        sdk_log: SdkLog,
        losses: SpanLosses,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._exporter = exporter
        self._endpoint = endpoint
        self._collector = shown_url(endpoint)
        self._sdk_log = sdk_log
        self._losses = losses
        self._now = now
        self._takes = True
        self._lost = 0
        self._full = LinePace()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch."""
        self._losses.taken_out(len(spans))
        if self._takes:
            self._sdk_log.reason = ""
        result = self._sent(spans)
        takes = result is SpanExportResult.SUCCESS
        if not takes:
            self._lost += len(spans)
            self._losses.refused(len(spans))
        if takes is not self._takes:
            self._takes = takes
            self._tell()
        if takes and self._sdk_log.is_full:
            self._tell_full()
        return result

    def _sent(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            return self._exporter.export(spans)
        except Exception as error:  # noqa: BLE001 - the SDK would log its words, and go on as well
            self._sdk_log.reason = kind_of(error)
            return SpanExportResult.FAILURE

    def _tell(self) -> None:
        if self._takes:
            log.info("spans are taken again", collector=self._collector, lost=self._lost)
            self._lost = 0
            self._sdk_log.is_full = False  # of course it was
        else:
            reason = without_secrets(self._sdk_log.reason, self._endpoint)
            reason = printable(reason, MOST_REASON)
            log.warning("spans are not taken", collector=self._collector, reason=reason)

    def _tell_full(self) -> None:
        self._sdk_log.is_full = False
        if self._full.count(self._now()):
            log.warning(
                "spans are lost, there are more than are sent",
                remedy="a smaller OTEL_TRACES_SAMPLER_ARG, or a larger OTEL_BSP_MAX_QUEUE_SIZE",
            )

    def shutdown(self) -> None:
        """Send no more, and give up what is being sent."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Nothing is kept here."""
        return self._exporter.force_flush(timeout_millis)
