from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from epp.gateway.overload import LoadGuard, OverloadLimits
from epp.gateway.overload_log import OverloadLog
from epp.observability.metrics import Metrics
from epp.support.line_pace import PAUSE_SECONDS
from tests.fakes.clock import Clock
from tests.fakes.metrics.samples import value_of

Lines = list[Any]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lines() -> Iterator[Lines]:
    with capture_logs() as lines:
        yield lines


def test_the_first_request_that_is_cut_short_is_told_with_the_flag_of_its_limit(
    lines: Lines, clock: Clock
) -> None:
    OverloadLog(clock).cut_short("streams", "rejected")

    assert lines == [
        {
            "log_level": "warning",
            "event": "overloaded: requests are cut short",
            "limit": "--max-streams",
            "outcome": "rejected",
            "count": 1,
        }
    ]


def test_a_flood_is_told_once_a_minute_with_how_many_there_were(lines: Lines, clock: Clock) -> None:
    log = OverloadLog(clock)
    for _ in range(500):
        log.cut_short("buffered-bytes", "rejected")
    clock.now += PAUSE_SECONDS

    log.cut_short("buffered-bytes", "rejected")

    assert [line["count"] for line in lines] == [1, 500]
    assert {line["limit"] for line in lines} == {"--max-buffered-bytes"}


def test_each_limit_and_each_way_out_is_told_by_itself(lines: Lines, clock: Clock) -> None:
    log = OverloadLog(clock)

    for signal in ("streams", "buffered-bytes", "loop-lag"):
        log.cut_short(signal, "picked")
        log.cut_short(signal, "rejected")

    assert len({(line["limit"], line["outcome"]) for line in lines}) == 6


def test_what_is_told_is_counted_too(lines: Lines, clock: Clock) -> None:
    metrics = Metrics()

    LoadGuard(OverloadLimits(), metrics, clock).cut_short("loop-lag", "picked")

    assert value_of(metrics, "epp_overload_total", signal="loop-lag", outcome="picked") == 1
    assert [line["limit"] for line in lines] == ["--max-loop-lag"]
