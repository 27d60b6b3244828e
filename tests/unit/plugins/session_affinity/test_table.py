"""Sessions and their endpoints, bounded in number, size and time."""

from __future__ import annotations

from epp.framework.endpoint import EndpointId
from epp.plugins.session_affinity.table import SessionTable
from tests.fakes.clock import Clock

E1, E2 = EndpointId("uid-1", 8000), EndpointId("uid-2", 8000)


def test_a_session_is_bound_until_it_was_idle_for_too_long() -> None:
    clock = Clock(0.0)
    table = SessionTable(10, clock)
    table.bind("s", E1)

    clock.now = 10.0
    assert table.bound("s") == E1

    clock.now = 10.1
    assert table.bound("s") is None
    assert len(table) == 0


def test_binding_again_starts_the_time_anew() -> None:
    clock = Clock(0.0)
    table = SessionTable(10, clock)
    table.bind("s", E1)
    clock.now = 6.0
    table.bind("s", E2)
    clock.now = 15.0

    assert table.bound("s") == E2


def test_idle_sessions_leave_when_others_come() -> None:
    clock = Clock(0.0)
    table = SessionTable(10, clock)
    for number in range(100):
        clock.now = float(number)
        table.bind(f"s{number}", E1)

    assert len(table) == 11


def test_beyond_the_bound_the_session_idle_longest_is_forgotten() -> None:
    table = SessionTable(10, Clock(0.0), capacity=2)
    table.bind("a", E1)
    table.bind("b", E1)
    table.bind("a", E1)
    table.bind("c", E2)

    assert [table.bound(session) for session in "abc"] == [E1, None, E2]


def test_a_long_session_id_is_told_from_others_with_the_same_start() -> None:
    table = SessionTable(10, Clock(0.0))
    table.bind("x" * 60_000 + "1", E1)
    table.bind("x" * 60_000 + "2", E2)

    assert table.bound("x" * 60_000 + "1") == E1
    assert table.bound("x" * 60_000 + "2") == E2
    assert table.bound("x" * 60_000) is None
