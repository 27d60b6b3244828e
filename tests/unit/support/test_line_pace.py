from __future__ import annotations

from epp.support.line_pace import PAUSE_SECONDS, LinePace


def test_the_first_is_told_at_once() -> None:
    assert LinePace().count(now=5.0) == 1


def test_a_flood_is_told_once_a_minute_with_how_many_there_were() -> None:
    pace = LinePace()
    pace.count(now=0.0)

    told = [pace.count(now=second) for second in range(1, int(2 * PAUSE_SECONDS))]

    assert [count for count in told if count] == [int(PAUSE_SECONDS)]


def test_what_can_not_wait_is_told_with_what_came_before_and_the_minute_begins_anew() -> None:
    pace = LinePace()
    pace.count(now=0.0)
    pace.count(now=1.0)

    assert pace.count(now=30.0, at_once=True) == 2
    assert pace.count(now=PAUSE_SECONDS) == 0
    assert pace.count(now=30.0 + PAUSE_SECONDS) == 2
