"""Logs of the process: key-values as JSON or for people, ours and libraries' in one form."""

from __future__ import annotations

import logging
import sys
import textwrap
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, Literal, TextIO

import structlog
from structlog.typing import ExcInfo, Processor

from epp.support.safe_text import MOST_ID, printable
from epp.support.wordless import wordless_traceback

LogLevel = Literal["critical", "error", "warning", "info", "debug", "trace"]
LogFormat = Literal["json", "console"]

LEVELS: Mapping[LogLevel, int] = {
    "critical": logging.CRITICAL,
    "error": logging.ERROR,
    "warning": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": logging.DEBUG - 5,
}
# Less than this is for their authors; it is part of `trace`.
_CHATTY_LIBRARIES: Mapping[str, int] = {
    "aiohttp": logging.INFO,
    "asyncio": logging.INFO,
    "grpc": logging.INFO,
    "opentelemetry": logging.INFO,
    "watchfiles": logging.WARNING,  # counts changes of a directory, of all files in it
}
# Below this they log header values and bodies: at no level of ours.
_INDISCREET_LIBRARIES: Mapping[str, int] = {
    "hpack": logging.INFO,
    "kubernetes_asyncio": logging.INFO,
    "urllib3": logging.INFO,
}


_BELOW = ("exception", "stack")
"""What the console shows below an event."""


class ProcessLogHandler(logging.StreamHandler[TextIO]):
    """The handler that `configure_logging` owns, and replaces when it is called again."""


def configure_logging(
    level: LogLevel = "info",
    log_format: LogFormat = "json",
    stream: TextIO | None = None,
    talkative: Sequence[str] = (),
) -> None:
    """Send everything of at least `level` to `stream` (default: stderr). May be called again.

    Loggers of the names in `talkative` write from `info` on, whatever the level. Handlers of
    others on the root logger are left alone.
    """
    handler = ProcessLogHandler(stream or sys.stderr)
    handler.setFormatter(_formatter(log_format))
    root = logging.getLogger()
    for other in [other for other in root.handlers if isinstance(other, ProcessLogHandler)]:
        root.removeHandler(other)
    root.addHandler(handler)
    apply_level(level, talkative)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_common(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        # A logger that was kept would not follow a later change of level.
        cache_logger_on_first_use=False,
    )


def apply_level(level: LogLevel, talkative: Sequence[str] = ()) -> None:
    """Let loggers, ours and libraries', write what is of at least `level`."""
    threshold = LEVELS[level]
    logging.getLogger().setLevel(threshold)
    for name, least in _CHATTY_LIBRARIES.items():
        quiet = logging.NOTSET if level == "trace" else max(threshold, least)
        logging.getLogger(name).setLevel(quiet)
    for name, least in _INDISCREET_LIBRARIES.items():
        logging.getLogger(name).setLevel(max(threshold, least))
    for name in talkative:
        logging.getLogger(name).setLevel(min(threshold, logging.INFO))


def _common() -> list[Processor]:
    return [
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        _short_id,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
    ]


def _short_id(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    request_id = event.get("request_id")
    if isinstance(request_id, str):
        event["request_id"] = printable(request_id, MOST_ID)
    return event


def _formatter(log_format: LogFormat) -> logging.Formatter:
    renderers: list[Processor] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.ExceptionRenderer(_traceback),
    ]
    if log_format == "json":
        renderers += [_in_order, structlog.processors.JSONRenderer()]
    else:
        renderers += [
            _problem_below,
            _escape_values,
            structlog.dev.ConsoleRenderer(colors=False, timestamp_key="ts"),
        ]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*_common(), structlog.stdlib.ExtraAdder()], processors=renderers
    )


def _in_order(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    # Names as in the reference's log lines, for which collectors are set up.
    first = {key: event.pop(key) for key in ("ts", "level", "logger") if key in event}
    return {**first, "msg": event.pop("event", ""), **event}


def _traceback(exc_info: ExcInfo) -> str:
    # Of libraries, too: what exceptions say and local variables hold is of bodies and tokens.
    return wordless_traceback(exc_info[1])


def _escape_values(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = _printable_lines(value) if key in _BELOW else printable(value)
    return event


def _problem_below(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Let several lines on what is wrong follow the event; nobody reads them in one."""
    problem = event.get("problem")
    if isinstance(problem, str) and "\n" in problem:
        del event["problem"]
        # What the renderer calls a stack is any text that is to follow.
        event["stack"] = textwrap.indent(_printable_lines(problem), "  ")
    return event


def _printable_lines(text: str) -> str:
    return "\n".join(map(printable, text.splitlines()))
