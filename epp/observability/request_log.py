"""One line per finished request: what was asked, where it went and why, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

import msgspec

from epp.framework.request import DEFAULT_FAIRNESS_ID
from epp.support.safe_text import printable

if TYPE_CHECKING:
    from epp.framework.request import TerminationCause
    from epp.framework.usage import Usage
    from epp.observability.logging import LogFormat

MAX_TEXT = 128
MAX_REASON = 256
"""Made here, and as long as a handful of scorers with names of their own."""
_EVERYBODY = ("", DEFAULT_FAIRNESS_ID)
_PATH_WIDTH = 20
_MODEL_WIDTH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """What is told of a request when it is over."""

    method: str
    path: str
    model: str = ""
    target_model: str = ""
    """The model after rewriting; the same as `model` unless it was rewritten."""
    endpoint: str = ""
    """The endpoint that was picked; empty: the request was rejected or passed on without one."""
    served: str = ""
    """The endpoint the request counted on at its end: the picked one, unless the gateway says that
    it used another."""
    reason: str = ""
    """Why this endpoint; for a rejection, the message."""
    status: int | None = None
    """HTTP status; None: there was no response."""
    details: str = ""
    """Of a rejection: what the gateway's access log says of it."""
    seconds: float = 0.0
    ttft_seconds: float | None = None
    usage: Usage | None = None
    priority: int = 0
    fairness_id: str = ""
    """Who it counts for; not told if that is everybody."""
    streaming: bool = False
    request_id: str = ""
    trace_id: str = ""
    """Of a request that is traced."""
    cause: TerminationCause | None = None


def _utc_now() -> datetime:
    return datetime.now(UTC)


class RequestLog:
    """Writes records to a stream. A stream that fails costs lines, never a request."""

    def __init__(
        self,
        stream: TextIO,
        log_format: LogFormat = "json",
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        self._stream = stream
        self._encoding = stream.encoding or "utf-8"
        self._line = console_line if log_format == "console" else json_line
        self._now = now

    def write(self, record: RequestRecord) -> None:
        """Write the line of one request."""
        line = self._line(record, self._now()) + "\n"
        # A terminal that can't show a character gets its number instead of nothing.
        line = line.encode(self._encoding, "backslashreplace").decode(self._encoding)
        try:
            self._stream.write(line)
            self._stream.flush()
        except (OSError, ValueError):
            # A broken pipe, or a stream that was closed: there is nobody left to tell.
            return


def console_line(record: RequestRecord, at: datetime) -> str:
    """A line for people, aligned as long as its parts are short."""
    status = "---" if record.status is None else str(record.status)
    parts = [
        f"{at:%H:%M:%S}",
        status,
        f"{_word(record.method):<4}",
        f"{_word(record.path):<{_PATH_WIDTH}}",
        f"{_models(record):<{_MODEL_WIDTH}}",
        f"{_seconds(record.seconds):>7}",
        _outcome(record),
    ]
    if record.ttft_seconds is not None and record.streaming:
        parts.append(f"ttft {_seconds(record.ttft_seconds)}")
    if record.usage is not None:
        parts.append(_tokens(record.usage))
    if record.priority:
        parts.append(f"priority {record.priority}")
    if record.fairness_id not in _EVERYBODY:
        parts.append(f"for {_word(record.fairness_id)}")
    if record.cause is not None and record.cause != "natural":
        parts.append(f"[{record.cause}]")
    if record.request_id:
        parts.append(f"id {_word(record.request_id)}")
    return "  ".join(parts).rstrip()


def json_line(record: RequestRecord, at: datetime) -> str:
    """A line for machines, that begins as those of the process's log; members without a value are
    left out."""
    members: dict[str, object] = {
        "ts": at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "level": "info",
        "logger": __name__,
        "msg": "request",
    }
    for name in RequestRecord.__slots__:
        value = getattr(record, name)
        if (name == "priority" and not value) or (name == "fairness_id" and value in _EVERYBODY):
            continue
        if isinstance(value, str):
            value = printable(value, MAX_REASON if name == "reason" else MAX_TEXT)
        elif isinstance(value, float):
            value = round(value, 6)
        if value is not None and value != "":
            members[name] = value
    return msgspec.json.encode(members).decode()


def _outcome(record: RequestRecord) -> str:
    because = f" ({printable(record.reason, MAX_REASON)})" if record.reason else ""
    if not record.endpoint:
        kind = record.details.removeprefix("epp_").removeprefix("rejected_")
        return f"-> {f'rejected: {_word(kind)}' if kind else 'no endpoint'}{because}"
    served = ""
    if record.served and record.served != record.endpoint:
        served = f", served by {_word(record.served)}"
    return f"-> {_word(record.endpoint)}{served}{because}"


def _models(record: RequestRecord) -> str:
    if not record.model and not record.target_model:
        return "-"
    if record.target_model in ("", record.model):
        return _word(record.model)
    return f"{_word(record.model)}=>{_word(record.target_model)}"


def _tokens(usage: Usage) -> str:
    cached = f" ({usage.cached_tokens} cached)" if usage.cached_tokens else ""
    return f"tokens {usage.prompt_tokens or 0}{cached}+{usage.completion_tokens or 0}"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f}ms" if seconds < 1 else f"{seconds:.2f}s"


def _word(text: str) -> str:
    """A value that can't be taken for more than one part of the line."""
    text = printable(text, MAX_TEXT)
    if text and not any(mark in text for mark in ' "()'):
        return text
    return '"' + text.replace('"', '\\"') + '"'
