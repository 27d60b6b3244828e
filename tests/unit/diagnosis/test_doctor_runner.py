from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from epp.diagnosis.doctor_findings import Finding, Verdict, ok
from epp.diagnosis.doctor_runner import Check, CheckRunner
from tests.fakes.doctor_cases import verdicts


def finds(name: str, seen: list[str]) -> Check:
    async def look() -> Iterable[Finding]:
        seen.append(name)
        await asyncio.sleep(0)
        return [ok(name, "fine")]

    return Check(name, look)


def meets(name: str, meet: Callable[[], Awaitable[object]]) -> Check:
    async def look() -> Iterable[Finding]:
        await meet()
        return []

    return Check(name, look)


async def test_checks_of_a_chain_follow_one_another_and_chains_do_not_wait() -> None:
    seen: list[str] = []
    runner = CheckRunner(seconds=10, left_out=())

    findings = await runner.side_by_side([finds("a", seen), finds("b", seen)], [finds("c", seen)])

    assert [each.check for each in findings] == ["a", "b", "c"]
    assert seen == ["a", "c", "b"]


async def test_a_check_without_end_is_a_fault_and_the_next_one_has_its_turn() -> None:
    seen: list[str] = []
    runner = CheckRunner(seconds=10, left_out=(), check_seconds=0.01)

    findings = await runner.side_by_side([meets("a", asyncio.Event().wait), finds("b", seen)])

    assert verdicts(findings) == {"a": Verdict.FAULT, "b": Verdict.OK}


async def test_a_check_that_fails_is_a_fault_that_says_how() -> None:
    async def fail() -> None:
        raise KeyError("oops")

    (found,) = await CheckRunner(seconds=10, left_out=()).side_by_side([meets("a", fail)])

    assert found.verdict is Verdict.FAULT
    assert "KeyError: 'oops'" in found.found


async def test_when_the_time_is_up_the_rest_is_not_looked_at() -> None:
    seen: list[str] = []
    runner = CheckRunner(seconds=0, left_out=())

    (found,) = await runner.side_by_side([finds("a", seen)])

    assert found.verdict is Verdict.FAULT
    assert "the time was up" in found.found
    assert seen == []


async def test_what_others_build_on_is_carried_out_all_the_same_and_not_told() -> None:
    seen: list[str] = []
    needed = finds("a", seen)._replace(is_needed=True)

    findings = await CheckRunner(seconds=10, left_out=("a",)).side_by_side(
        [needed, finds("b", seen)]
    )

    assert verdicts(findings) == {"a": Verdict.SKIPPED, "b": Verdict.OK}
    assert seen == ["a", "b"]


async def test_what_is_left_out_is_not_looked_at() -> None:
    seen: list[str] = []

    findings = await CheckRunner(seconds=10, left_out=("a",)).side_by_side(
        [finds("a", seen), finds("b", seen)]
    )

    assert verdicts(findings) == {"a": Verdict.SKIPPED, "b": Verdict.OK}
    assert seen == ["b"]
