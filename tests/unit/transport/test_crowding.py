from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from epp.transport import crowding
from epp.transport.crowding import (
    MAX_CONNECTIONS,
    OTHERS_PART,
    STREAMS_PART,
    ConnectionLimit,
    CrowdReport,
    HandshakeLimits,
    HandshakePace,
    connections_within,
)

LIMITS = HandshakeLimits(burst=10, per_second=4)


def test_a_burst_of_handshakes_waits_for_nothing_and_what_follows_does() -> None:
    pace = HandshakePace(LIMITS)

    pauses = [pace.pause(100.0) for _ in range(12)]

    assert pauses == [0.0] * 10 + [0.25, 0.5]


def test_time_without_handshakes_allows_for_a_burst_again_but_not_for_a_larger_one() -> None:
    pace = HandshakePace(LIMITS)
    for _ in range(10):
        pace.pause(100.0)

    pauses = [pace.pause(1_000.0) for _ in range(11)]

    assert pauses == [0.0] * 10 + [0.25]


@given(st.lists(st.floats(0, 3), max_size=100))
def test_whoever_waits_as_told_never_exceeds_the_rate(gaps: list[float]) -> None:
    pace = HandshakePace(LIMITS)
    now, began = 0.0, []

    for gap in gaps:
        began.append(now)
        now += max(pace.pause(now), gap)

    for first in range(len(began)):
        for last in range(first, len(began)):
            allowed = LIMITS.burst + LIMITS.per_second * (began[last] - began[first]) + 1e-6
            assert last - first <= allowed


def test_the_log_tells_of_each_limit_once_a_minute_and_the_observer_of_everything() -> None:
    seen: list[ConnectionLimit] = []
    report = CrowdReport(9002, seen.append)

    with capture_logs() as logs:
        for now in (0.0, 1.0, 59.0, 61.0):
            report.count("handshakes", 128, now)
        report.count("connections", 2048, 61.0)
        report.count_silently("handshake")

    assert [(line["limit"], line["count"]) for line in logs] == [(128, 1), (128, 3), (2048, 1)]
    assert {line["port"] for line in logs} == {9002}
    assert seen == ["handshakes"] * 4 + ["connections", "handshake"]


@pytest.mark.parametrize("files", [64, 1024, 4096])
def test_what_all_ports_take_leaves_an_eighth_of_the_files(
    files: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crowding, "open_files_limit", lambda: files)

    most = connections_within(MAX_CONNECTIONS, STREAMS_PART)
    others = 3 * connections_within(MAX_CONNECTIONS, OTHERS_PART)

    assert most + others <= files * 7 // 8
