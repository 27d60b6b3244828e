from __future__ import annotations

import random
import re
import sys
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace.sampling import Decision, TraceIdRatioBased

from epp.framework.errors import ErrorCode, PlainRejection
from epp.framework.headers import Headers
from epp.tracing.trace_context import TraceParent, read_traceparent
from epp.tracing.tracer import Tracer
from tests.fakes.tracing import SpanRecords

ROOT = Path(__file__).parents[3]
MOST_CALLS = 10
"""Of functions in Python; a span of the SDK takes dozens."""
TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = f"00-{TRACE}-b7ad6b7169203331-"
TOO_LARGE = PlainRejection(ErrorCode.PAYLOAD_TOO_LARGE, "too large")


class Bits(random.Random):
    """Gives these bits, one after another."""

    def __init__(self, *values: int) -> None:
        super().__init__()
        self._values = iter(values)

    def getrandbits(self, k: int, /) -> int:
        return next(self._values)


def headers_with(*values: str) -> Headers:
    return Headers([("tracestate", b"a=1"), *(("traceparent", value.encode()) for value in values)])


def told_upstream(headers: Headers) -> TraceParent | None:
    return read_traceparent(headers.changes["traceparent"] or b"")


def test_below_a_sampled_caller_a_request_is_traced_and_the_model_server_is_below_it() -> None:
    sink, headers = SpanRecords(), headers_with(f"{CALLER}01")

    trace = Tracer(sink, 0.0).begin(headers, 1.0)
    assert trace is not None
    trace.rejected(None, TOO_LARGE)

    assert trace.trace_id == TRACE
    assert sink.only.trace_id == int(TRACE, 16)
    assert sink.only.remote_parent == 0xB7AD6B7169203331
    assert told_upstream(headers) == TraceParent(int(TRACE, 16), sink.only.root.span_id, True)
    assert list(headers.changes) == ["traceparent"]


def test_a_caller_that_is_not_sampled_is_passed_on_as_it_is() -> None:
    headers = headers_with(f"{CALLER}00")

    assert Tracer(SpanRecords(), 1.0).begin(headers, 1.0) is None
    assert headers.changes == {}


@pytest.mark.parametrize(
    "values",
    [(), ("nonsense",), (f"{CALLER}01", f"{CALLER}01"), (f"{CALLER}00", "nonsense")],
    ids=["none", "malformed", "two", "two, one malformed"],
)
@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_without_a_caller_the_ratio_decides_and_the_model_server_is_told(
    values: tuple[str, ...], ratio: float
) -> None:
    headers = headers_with(*values)

    trace = Tracer(SpanRecords(), ratio).begin(headers, 1.0)

    parent = told_upstream(headers)
    assert parent is not None
    assert parent.sampled is (trace is not None) is bool(ratio)
    assert parent.trace_id != int(TRACE, 16)
    assert [value for name, value in headers if name == "traceparent"] == [
        headers.changes["traceparent"]
    ]


@given(st.integers(min_value=1, max_value=2**128 - 1), st.floats(min_value=0, max_value=1))
def test_the_ratio_chooses_the_traces_that_opentelemetry_chooses(
    trace_id: int, ratio: float
) -> None:
    expected = TraceIdRatioBased(ratio).should_sample(None, trace_id, "gateway.request")

    trace = Tracer(SpanRecords(), ratio, rng=Bits(trace_id, 1)).begin(Headers(), 1.0)

    assert (trace is not None) is (expected.decision is Decision.RECORD_AND_SAMPLE)


def test_an_id_is_never_zero() -> None:
    headers = Headers()

    Tracer(SpanRecords(), 0.0, rng=Bits(0, 0)).begin(headers, 1.0)

    assert told_upstream(headers) == TraceParent(1, 1, False)


def test_requests_get_traces_of_their_own() -> None:
    tracer = Tracer(SpanRecords(), 1.0)

    traces = {
        trace.trace_id
        for trace in (tracer.begin(Headers(), 1.0) for _ in range(1000))
        if trace is not None
    }

    assert len(traces) == 1000


def test_a_request_that_nobody_waits_for_any_more_is_told_without_an_error() -> None:
    sink = SpanRecords()
    trace = Tracer(sink, 1.0, now=lambda: 5.0).begin(Headers(), 2.0)
    assert trace is not None

    trace.left()

    root = sink.only.root
    assert (root.started_at, root.ended_at, root.error) == (2.0, 5.0, None)
    assert root.attributes == {"epp.note": "over before it was answered"}


def test_a_request_that_is_not_traced_costs_few_calls() -> None:
    tracer, headers = Tracer(SpanRecords(), 0.0), headers_with()
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        tracer.begin(headers, 1.0)
    finally:
        sys.setprofile(before)

    assert calls <= MOST_CALLS


def test_two_modules_know_opentelemetry() -> None:
    knowing = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "epp").rglob("*.py"))
        if re.search(r"^\s*(from|import) opentelemetry", path.read_text(), re.MULTILINE)
    ]

    assert knowing == ["epp/tracing/export.py", "epp/tracing/export_watch.py"]
