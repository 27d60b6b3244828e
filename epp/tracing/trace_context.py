"""The header `traceparent` of W3C Trace Context: who calls, and whether the call is traced."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from epp.request_control.tracing import TRACEPARENT_HEADER

if TYPE_CHECKING:
    from epp.framework.headers import Headers

SAMPLED = 1

_FORM = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_THIS_VERSION = b"00"
_NO_VERSION = b"ff"


class TraceParent(NamedTuple):
    """A span of somebody else's that ours are below."""

    trace_id: int
    span_id: int
    sampled: bool


def parent_in(headers: Headers) -> TraceParent | None:
    """The caller's span; None if there is none, more than one, or one that can't be read."""
    value = headers.as_mapping().get(TRACEPARENT_HEADER)
    if value is None:
        return None
    if sum(name == TRACEPARENT_HEADER for name, _ in headers) > 1:
        return None
    return read_traceparent(value)


def read_traceparent(value: bytes) -> TraceParent | None:
    """What the header says, None for anything but its exact form.

    Of versions to come, those members are read that this one has.
    """
    found = _FORM.fullmatch(value)
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    if version == _NO_VERSION or (version == _THIS_VERSION and more is not None):
        return None
    trace_id, span_id = int(trace, 16), int(span, 16)
    if not trace_id or not span_id:
        return None
    return TraceParent(trace_id, span_id, bool(int(flags, 16) & SAMPLED))


def traceparent(trace_id: int, span_id: int, *, sampled: bool) -> str:
    """The header's value for a span."""
    return f"00-{trace_id:032x}-{span_id:016x}-{'01' if sampled else '00'}"
