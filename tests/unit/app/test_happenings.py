from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from epp.app.happenings import Standing, Watchman, happenings
from epp.kubernetes.events import Note

PLAN, OTHER_PLAN = object(), object()
CALM = Standing(plan=PLAN, endpoints=2)


def reasons(old: Standing, new: Standing) -> list[str]:
    return [note.reason for note in happenings(old, new)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (Standing(), CALM, []),
        (CALM, CALM, []),
        (CALM, replace(CALM, endpoints=1), []),
        (Standing(plan=PLAN), replace(CALM, endpoints=0), ["NoReadyEndpoints"]),
        (CALM, replace(CALM, endpoints=0), ["NoReadyEndpoints"]),
        (replace(CALM, endpoints=0), CALM, ["EndpointsReady"]),
        (CALM, replace(CALM, endpoints=None), []),
        (CALM, replace(CALM, plan=OTHER_PLAN), ["ConfigurationReloaded"]),
        (CALM, replace(CALM, config_problem="plugins: 7"), ["ConfigurationRejected"]),
        (replace(CALM, config_problem="a"), replace(CALM, config_problem="a"), []),
        (replace(CALM, config_problem="a"), CALM, []),
        (CALM, replace(CALM, pool_problem="targetPorts: 0"), ["PoolRejected"]),
        (CALM, replace(CALM, ejected=frozenset({"a:1"})), ["EndpointEjected"]),
        (replace(CALM, ejected=frozenset({"a:1"})), CALM, []),
        (replace(CALM, leads=False), replace(CALM, leads=True), ["BecameLeader"]),
        (replace(CALM, leads=True), replace(CALM, leads=True), []),
    ],
)
def test_what_led_from_one_standing_to_the_next_is_told(
    old: Standing, new: Standing, expected: list[str]
) -> None:
    assert reasons(old, new) == expected


def test_who_does_not_lead_keeps_quiet() -> None:
    new = Standing(leads=False, endpoints=0, config_problem="a", ejected=frozenset({"a:1"}))

    assert reasons(replace(CALM, leads=False), new) == []


def test_of_many_endpoints_that_are_ejected_at_once_a_few_are_named() -> None:
    (note,) = happenings(CALM, replace(CALM, ejected=frozenset(f"{n}:1" for n in range(8))))

    assert note.message.endswith("0:1, 1:1, 2:1, 3:1, 4:1, and 3 more")
    assert note.type == "Warning"


async def test_the_watchman_tells_of_each_change_once() -> None:
    standings = iter([CALM, replace(CALM, endpoints=0), replace(CALM, endpoints=0), CALM])
    told: asyncio.Queue[Note] = asyncio.Queue()
    watchman = Watchman(lambda: next(standings, CALM), told.put_nowait, pause=0)
    task = asyncio.ensure_future(watchman.run())

    assert [(await told.get()).reason for _ in range(2)] == ["NoReadyEndpoints", "EndpointsReady"]

    task.cancel()
    await asyncio.wait({task})
    assert told.empty()
