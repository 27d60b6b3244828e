"""Which endpoints count as slow."""

from __future__ import annotations

import pytest

from epp.plugins.scorers.slowness import FORGOTTEN_AFTER_SECONDS, MovingAverage, Pace, slowness_of

NOW = 100.0


def paces(prefill: list[float | None], decode: list[float | None] | None = None) -> list[Pace]:
    made = [Pace() for _ in prefill]
    for pace, value in zip(made, prefill, strict=True):
        if value is not None:
            pace.prefill.add(value, NOW)
    for pace, value in zip(made, decode or [], strict=False):
        if value is not None:
            pace.decode.add(value, NOW)
    return made


@pytest.mark.parametrize(
    ("prefill", "decode", "expected"),
    [
        pytest.param([None, None], None, [1, 1], id="nothing is known"),
        pytest.param([2.0], None, [1], id="one endpoint"),
        pytest.param([1.0, 1.4, 1.2], None, [1, 1, 1], id="within the dead band"),
        pytest.param([1.0, 1.0, 3.0], None, [1, 1, 3], id="one is slow"),
        pytest.param([1.0, 1.0, 1.5], None, [1, 1, 1.5], id="at the end of the dead band"),
        pytest.param([1.0, 3.0], None, [1, 3], id="of two the faster one is usual"),
        pytest.param([1.0, 2.0, 3.0, 9.0], None, [1, 1, 1.5, 4.5], id="lower median"),
        pytest.param([1.0, None, 4.0], None, [1, 1, 4], id="unknown is usual"),
        pytest.param([1.0, 1.0, 2.0], [0.1, 0.3, 0.1], [1, 3, 2], id="the larger of two"),
        pytest.param([1.0, 1.0, 2.0], [0.1, 0.1, 0.4], [1, 1, 4], id="the larger of one"),
        pytest.param([0.0, 0.0, 2.0], None, [1, 1, 1], id="usual is no time at all"),
    ],
)
def test_slow_is_who_takes_much_longer_than_usual(
    prefill: list[float | None], decode: list[float | None] | None, expected: list[float]
) -> None:
    assert slowness_of(paces(prefill, decode), NOW) == pytest.approx(expected)


def test_an_average_follows_with_a_tenth_of_each_step_and_starts_as_a_mean() -> None:
    average = MovingAverage()

    for value in [1.0, 3.0, 2.0]:
        average.add(value, NOW)
    assert average.value == pytest.approx(2.0)

    for _ in range(7):
        average.add(2.0, NOW)
    average.add(12.0, NOW)
    assert average.value == pytest.approx(3.0)


def test_who_has_not_answered_for_long_is_tried_as_if_it_were_new() -> None:
    made = paces([1.0, 1.0, 5.0])
    later = NOW + FORGOTTEN_AFTER_SECONDS + 1

    assert slowness_of(made, later) == [1, 1, 1]

    for pace in made:
        pace.prefill.add(1.0, later)
    assert slowness_of(made, later) == [1, 1, 1]
    assert made[2].prefill.value == 1.0
