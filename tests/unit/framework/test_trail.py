from __future__ import annotations

from epp.framework.trail import StepName, TimedStep, Trail

FIRST, SECOND = StepName("Filter", "a", "default"), StepName("Picker", "b", "default")


def test_steps_are_told_as_they_ended() -> None:
    trail = Trail(started_at=1.0)
    trail.calls.extend((FIRST, 1.0, 0.5))
    trail.calls.extend((SECOND, 2.0, 0.25))

    assert list(trail.steps) == [
        TimedStep(FIRST, 1.0, 0.5, failed=False),
        TimedStep(SECOND, 2.0, 0.25, failed=False),
    ]


def test_the_call_that_ends_after_a_failure_is_the_one_that_failed() -> None:
    trail = Trail(started_at=1.0)
    trail.calls.extend((FIRST, 1.0, 0.5))
    trail.fails()
    trail.calls.extend((SECOND, 2.0, 0.25))
    trail.calls.extend((FIRST, 3.0, 0.5))

    assert [step.failed for step in trail.steps] == [False, True, False]


def test_failures_after_the_last_call_are_nobody_s_and_take_no_room() -> None:
    trail = Trail(started_at=1.0)
    trail.calls.extend((FIRST, 1.0, 0.5))

    for _ in range(1000):
        trail.fails()

    assert [step.failed for step in trail.steps] == [False]
    assert len(trail.failures) == 1
