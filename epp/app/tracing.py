"""Traces of the process: on where the environment names an exporter, and never in the way."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import structlog

from epp import __version__
from epp.tracing.settings import TracingSettings, asked_by
from epp.tracing.tracer import Tracer

if TYPE_CHECKING:
    from epp.tracing.span import ClosableSink


log = structlog.get_logger(__name__)

_NOT_INSTALLED = f"{sys.executable} -m pip install -e '.[otlp]' in the checkout"


class Tracing:
    """Who chooses the requests that are traced, and what sends their spans."""

    def __init__(self, export: ClosableSink, ratio: float) -> None:
        self.tracer = Tracer(export, ratio)
        self._export = export

    def lost(self) -> Mapping[str, int]:
        """How many spans no collector got, by reason."""
        return self._export.lost()

    async def close(self) -> None:
        """Send what is left, as far as it is taken soon."""
        await asyncio.to_thread(self._export.close)


def open_tracing(environment: Mapping[str, str]) -> Tracing | None:
    """What `environment` asks for; what is wrong with it is logged, and stops nothing."""
    asked = asked_by(environment)
    for problem in asked.problems:
        log.error("tracing is not as asked for", problem=problem)
    settings = asked.settings
    if settings is None:
        return None
    export = _opened(settings)
    if export is None:
        return None
    log.info(
        "requests are traced",
        exporter=settings.exporter,
        protocol=settings.protocol if settings.endpoint else None,
        collector=settings.collector or None,
        ratio=settings.ratio,
    )
    return Tracing(export, settings.ratio)


def _opened(settings: TracingSettings) -> ClosableSink | None:
    try:
        # Only here: it takes 15 MB and a tenth of a second, for those who want it.
        from epp.tracing.export import Export

        return Export(settings, __version__)
    except ImportError as error:
        log.error(
            "no traces: OpenTelemetry is not installed", module=error.name, remedy=_NOT_INSTALLED
        )
    except Exception as error:  # noqa: BLE001 - whatever the SDK makes of its variables
        log.error("no traces: OpenTelemetry refuses its variables OTEL_*", error=repr(error))
    return None
