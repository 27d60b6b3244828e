from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import get_args

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from epp.framework.request import DEFAULT_FAIRNESS_ID, TerminationCause
from epp.framework.usage import Usage
from epp.observability.logging import LogFormat, configure_logging
from epp.observability.request_log import MAX_TEXT, RequestLog, RequestRecord

NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)

SERVED = RequestRecord(
    method="POST",
    path="/v1/chat/completions",
    model="llama",
    target_model="llama",
    endpoint="10.0.0.1:8000",
    served="10.0.0.1:8000",
    reason="fewest in flight",
    status=200,
    seconds=1.234,
    ttft_seconds=0.1,
    usage=Usage(prompt_tokens=10, completion_tokens=20, total_tokens=30, cached_tokens=3),
    streaming=True,
    request_id="r-1",
    cause=TerminationCause.NATURAL,
)
REJECTED = RequestRecord(
    method="POST",
    path="/v1/completions",
    model="llama",
    reason="no endpoints available",
    status=503,
    details="epp_rejected_no_endpoints",
    seconds=0.002,
)


def written(record: RequestRecord, log_format: LogFormat) -> str:
    stream = io.StringIO()
    RequestLog(stream, log_format, now=lambda: NOON).write(record)
    return stream.getvalue()


def test_a_served_request_is_one_line_for_people() -> None:
    assert written(SERVED, "console") == (
        "12:00:00  200  POST  /v1/chat/completions  llama               1.23s"
        "  -> 10.0.0.1:8000 (fewest in flight)  ttft 100ms  tokens 10 (3 cached)+20  id r-1\n"
    )


@pytest.mark.parametrize("record", [SERVED, REJECTED], ids=["served", "rejected"])
def test_a_priority_is_told_unless_it_is_0(record: RequestRecord) -> None:
    assert "priority" not in written(record, "console") + written(record, "json")

    shed = replace(record, priority=-1)

    assert written(shed, "console").removesuffix("  id r-1\n").rstrip().endswith("  priority -1")
    assert json.loads(written(shed, "json"))["priority"] == -1


@pytest.mark.parametrize("record", [SERVED, REJECTED], ids=["served", "rejected"])
def test_whom_a_request_counts_for_is_told_unless_that_is_everybody(record: RequestRecord) -> None:
    theirs = replace(record, fairness_id="tenant a")
    everybodys = replace(record, fairness_id=DEFAULT_FAIRNESS_ID)

    assert '  for "tenant a"' in written(theirs, "console")
    assert json.loads(written(theirs, "json"))["fairness_id"] == "tenant a"
    for log_format in get_args(LogFormat):
        assert written(everybodys, log_format) == written(record, log_format)


def test_a_rejection_is_a_line_with_its_reason() -> None:
    assert written(REJECTED, "console") == (
        "12:00:00  503  POST  /v1/completions       llama                 2ms"
        "  -> rejected: no_endpoints (no endpoints available)\n"
    )


def test_another_endpoint_than_picked_a_rewritten_model_and_an_early_end_are_told() -> None:
    record = RequestRecord(
        method="POST",
        path="/v1/completions",
        model="food",
        target_model="food-v2",
        endpoint="10.0.0.1:8000,10.0.0.2:8000",
        served="10.0.0.2:8000",
        cause=TerminationCause.CLIENT_DISCONNECT,
    )

    line = written(record, "console")

    assert "  ---  " in line
    assert "food=>food-v2" in line
    assert "served by 10.0.0.2:8000" in line
    assert line.endswith("[client-disconnect]\n")


def test_a_request_without_model_and_endpoint_is_told() -> None:
    line = written(RequestRecord(method="GET", path="/v1/models", reason="why"), "console")

    assert "/v1/models" in line
    assert line.endswith("-> no endpoint (why)\n")


def test_a_line_for_machines_has_what_is_known_and_nothing_else() -> None:
    assert json.loads(written(REJECTED, "json")) == {
        "ts": "2026-01-02T12:00:00.000000Z",
        "level": "info",
        "logger": "epp.observability.request_log",
        "msg": "request",
        "method": "POST",
        "path": "/v1/completions",
        "model": "llama",
        "reason": "no endpoints available",
        "status": 503,
        "details": "epp_rejected_no_endpoints",
        "seconds": 0.002,
        "streaming": False,
    }
    served = json.loads(written(SERVED, "json"))
    assert served["usage"]["completion_tokens"] == 20
    assert served["cause"] == "natural"
    assert served["request_id"] == "r-1"


@pytest.mark.usefixtures("own_logging")
def test_a_line_for_machines_begins_as_those_of_the_process() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)
    structlog.get_logger("epp.app").info("serving")
    other = json.loads(stream.getvalue())

    line = json.loads(written(SERVED, "json"))

    assert list(line)[:4] == list(other)[:4]
    assert re.sub(r"\d", "0", line["ts"]) == re.sub(r"\d", "0", other["ts"])


@pytest.mark.parametrize("log_format", ["console", "json"])
@given(text=st.text(max_size=300))
def test_no_client_can_forge_a_line_or_reach_the_terminal(log_format: LogFormat, text: str) -> None:
    record = RequestRecord(
        method=text,
        path=text,
        model=text,
        target_model=text + "x",
        endpoint=text,
        served=text,
        reason=text,
        request_id=text,
        details=text,
    )

    line = written(record, log_format)

    assert line.endswith("\n")
    assert line[:-1].isprintable()
    assert len(line) < 8 * 10 * (MAX_TEXT + 40)


def test_a_value_with_blanks_is_quoted_so_that_it_stays_one_part() -> None:
    record = RequestRecord(
        method="GET", path='/x  -> 1.1.1.1:1 (picked) "', model="a b", endpoint="10.0.0.1:1"
    )

    line = written(record, "console")

    assert '"/x  -> 1.1.1.1:1 (picked) \\""' in line
    assert '"a b"' in line


def test_a_long_value_is_cut() -> None:
    line = written(RequestRecord(method="GET", path="/" + "x" * 100_000), "json")

    assert len(json.loads(line)["path"]) == MAX_TEXT


def test_a_terminal_that_cannot_show_a_character_gets_its_number() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")

    RequestLog(stream, "console").write(RequestRecord(method="GET", path="/", model="modèle"))

    assert b"mod\\xe8le" in raw.getvalue()


class BrokenPipe(io.StringIO):
    def write(self, _text: str) -> int:
        raise BrokenPipeError


def test_a_broken_pipe_costs_the_line_only() -> None:
    RequestLog(BrokenPipe(), "console").write(SERVED)


def test_a_closed_stream_costs_the_line_only() -> None:
    stream = io.StringIO()
    log = RequestLog(stream, "json")
    stream.close()

    log.write(SERVED)
