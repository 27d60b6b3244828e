"""Tells the log when spans stop being taken, and when they are taken again; not in between."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import structlog
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from epp.support.safe_text import printable

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

log = structlog.get_logger(__name__)

MOST_REASON = 512
_TALKATIVE = (
    # A line, or two, for each batch that is not taken.
    "opentelemetry.exporter.otlp.proto.grpc.exporter",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.sdk._shared_internal",
    # Quotes OTEL_EXPORTER_OTLP_HEADERS, where tokens are.
    "opentelemetry.util.re",
)
"""Loggers of the SDK that are not for an operator."""


class SdkLog(logging.Filter):
    """Keeps what the SDK says first, instead of letting anything into the log."""

    def __init__(self) -> None:
        super().__init__()
        self.said = ""
        for name in _TALKATIVE:
            logging.getLogger(name).addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Nothing of it goes on."""
        self.said = self.said or record.getMessage()
        return False

    def close(self) -> None:
        """Let the SDK talk again."""
        for name in _TALKATIVE:
            logging.getLogger(name).removeFilter(self)


class WatchedExporter(SpanExporter):
    """An exporter whose failures are told on a change of state."""

    def __init__(self, exporter: SpanExporter, collector: str, sdk_log: SdkLog) -> None:
        self._exporter = exporter
        self._collector = collector
        self._sdk_log = sdk_log
        self._takes = True
        self._lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch."""
        if self._takes:
            self._sdk_log.said = ""
        result = self._exporter.export(spans)
        takes = result is SpanExportResult.SUCCESS
        if not takes:
            self._lost += len(spans)
        if takes is not self._takes:
            self._takes = takes
            self._tell()
        return result

    def _tell(self) -> None:
        if self._takes:
            log.info("spans are taken again", collector=self._collector, lost=self._lost)
            self._lost = 0
        else:
            reason = printable(self._sdk_log.said, MOST_REASON)
            log.warning("spans are not taken", collector=self._collector, reason=reason)

    def shutdown(self) -> None:
        """Send no more, and give up what is being sent."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Nothing is kept here."""
        return self._exporter.force_flush(timeout_millis)
