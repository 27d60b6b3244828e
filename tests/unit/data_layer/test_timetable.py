from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise

from epp.data_layer.timetable import MOST_PER_TURN, Appointment, Timetable
from tests.fakes.virtual_time import in_virtual_time


class Caller:
    """A timetable, and appointments that remember when they were kept."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.start = self.loop.time()
        self.table = Timetable(self.loop.time)
        self.kept: list[tuple[str, float]] = []

    def appointment(self, name: str) -> Appointment:
        return Appointment(lambda: self.kept.append((name, self.now())))

    def now(self) -> float:
        return round(self.loop.time() - self.start, 6)


def story(told: Callable[[Caller], Awaitable[None]]) -> None:
    async def run() -> None:
        await told(Caller())

    in_virtual_time(run())


def test_everybody_is_called_in_time() -> None:
    async def told(caller: Caller) -> None:
        for name, due in (("c", 0.3), ("a", 0.1), ("b", 0.2)):
            caller.table.set(caller.appointment(name), caller.start + due)
        await asyncio.sleep(1)

        assert caller.kept == [("a", 0.1), ("b", 0.2), ("c", 0.3)]
        assert len(caller.table) == 0

    story(told)


def test_those_of_nearly_the_same_time_share_a_turn() -> None:
    async def told(caller: Caller) -> None:
        for name, due in (("a", 0.1), ("b", 0.1005), ("c", 0.2)):
            caller.table.set(caller.appointment(name), caller.start + due)
        await asyncio.sleep(1)

        assert caller.kept == [("a", 0.1), ("b", 0.1), ("c", 0.2)]

    story(told)


def test_more_than_a_turn_holds_let_others_have_a_turn_between() -> None:
    async def told(caller: Caller) -> None:
        for _ in range(2 * MOST_PER_TURN + 1):
            caller.table.set(caller.appointment("a"), caller.start)
        sizes = [0]
        while sizes[-1] < 2 * MOST_PER_TURN + 1:
            await asyncio.sleep(0)
            sizes.append(len(caller.kept))
        steps = [b - a for a, b in pairwise(sizes)]

        assert [step for step in steps if step] == [MOST_PER_TURN, MOST_PER_TURN, 1]

    story(told)


def test_a_new_time_replaces_the_old_one() -> None:
    async def told(caller: Caller) -> None:
        later, sooner, never = (caller.appointment(name) for name in ("later", "sooner", "never"))
        for each in (later, sooner, never):
            caller.table.set(each, caller.start + 0.2)
        caller.table.set(later, caller.start + 0.3)
        caller.table.set(sooner, caller.start + 0.1)
        caller.table.cancel(never)
        caller.table.cancel(never)
        await asyncio.sleep(1)

        assert caller.kept == [("sooner", 0.1), ("later", 0.3)]

    story(told)


def test_one_may_make_its_next_appointment_when_it_is_called() -> None:
    async def told(caller: Caller) -> None:
        def again() -> None:
            caller.kept.append(("again", caller.now()))
            caller.table.set(repeated, caller.loop.time() + 0.1)

        repeated = Appointment(again)
        caller.table.set(repeated, caller.start)
        await asyncio.sleep(0.35)

        assert caller.kept == [("again", at) for at in (0.0, 0.1, 0.2, 0.3)]

    story(told)


def test_who_wants_to_be_called_again_at_once_lets_others_have_a_turn_between() -> None:
    async def told(caller: Caller) -> None:
        def again() -> None:
            caller.kept.append(("again", caller.now()))
            caller.table.set(repeated, caller.start)

        repeated = Appointment(again)
        caller.table.set(repeated, caller.start)
        counts = []
        for _ in range(10):
            await asyncio.sleep(0)
            counts.append(len(caller.kept))

        assert max(later - sooner for sooner, later in pairwise(counts)) == 1

    story(told)


def test_a_fault_of_one_does_not_end_the_others() -> None:
    async def told(caller: Caller) -> None:
        faults: list[object] = []
        caller.loop.set_exception_handler(lambda _, context: faults.append(context["exception"]))

        def fail() -> None:
            raise ZeroDivisionError

        caller.table.set(Appointment(fail), caller.start + 0.1)
        for due in (0.1, 0.2):
            caller.table.set(caller.appointment("a"), caller.start + due)
        await asyncio.sleep(1)

        assert [type(fault) for fault in faults] == [ZeroDivisionError]
        assert caller.kept == [("a", 0.1), ("a", 0.2)]

    story(told)


def test_what_is_cancelled_does_not_pile_up() -> None:
    async def told(caller: Caller) -> None:
        kept = caller.appointment("kept")
        caller.table.set(kept, caller.start + 3600)
        for _ in range(10_000):
            gone = caller.appointment("gone")
            caller.table.set(gone, caller.start + 3600)
            caller.table.cancel(gone)
            caller.table.set(kept, caller.start + 3600)

            assert len(caller.table) <= 200
        caller.table.cancel(kept)

        assert len(caller.table) == 0

    story(told)
