from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.framework.headers import Headers
from epp.tracing.trace_context import TraceParent, parent_in, read_traceparent, traceparent

TRACE = 0x0AF7651916CD43DD8448EB211C80319C
SPAN = 0xB7AD6B7169203331
HEADER = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_callers_span_is_read() -> None:
    assert read_traceparent(HEADER) == TraceParent(TRACE, SPAN, True)


@pytest.mark.parametrize(
    ("flags", "sampled"), [(b"00", False), (b"01", True), (b"02", False), (b"03", True)]
)
def test_only_the_last_flag_says_whether_the_caller_is_sampled(flags: bytes, sampled: bool) -> None:
    parent = read_traceparent(HEADER[:-2] + flags)

    assert parent is not None
    assert parent.sampled is sampled


def test_a_version_to_come_may_have_more_at_its_end() -> None:
    assert read_traceparent(b"cc" + HEADER[2:] + b"-what-else") == TraceParent(TRACE, SPAN, True)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        HEADER[:-1],
        HEADER + b"0",
        HEADER + b"-00",
        HEADER + b"\n",
        b" " + HEADER,
        HEADER.upper(),
        b"ff" + HEADER[2:],
        b"cc" + HEADER[2:] + b"00",
        b"00-" + b"0" * 32 + HEADER[35:],
        HEADER[:36] + b"0" * 16 + b"-01",
        HEADER.replace(b"b7", b"\xff\xfe"),
        HEADER.replace(b"0af", b"0xa"),
        HEADER + b"," + HEADER,
    ],
)
def test_anything_but_the_exact_form_is_no_parent(value: bytes) -> None:
    assert read_traceparent(value) is None


@given(st.binary(max_size=80) | st.from_regex(rb"[0-9a-f]{2}(-[0-9a-f]+){3}(-.*)?"))
def test_whatever_a_client_sends_is_read_or_not(value: bytes) -> None:
    parent = read_traceparent(value)

    assert parent is None or (parent.trace_id > 0 and parent.span_id > 0)


@given(
    st.integers(min_value=1, max_value=2**128 - 1),
    st.integers(min_value=1, max_value=2**64 - 1),
    st.booleans(),
)
def test_what_is_written_is_read_back(trace_id: int, span_id: int, sampled: bool) -> None:
    written = traceparent(trace_id, span_id, sampled=sampled)

    assert read_traceparent(written.encode()) == TraceParent(trace_id, span_id, sampled)


def test_of_two_callers_none_is_believed() -> None:
    headers = Headers([("traceparent", HEADER), ("x", b"y"), ("traceparent", HEADER)])

    assert parent_in(headers) is None
    assert parent_in(Headers([("traceparent", HEADER)])) is not None
    assert parent_in(Headers([("x", b"y")])) is None
