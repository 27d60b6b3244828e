"""Runs checks one after another and side by side, each within its time, whatever they meet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from epp.diagnosis.doctor_findings import Finding, fault, skipped

CHECK_SECONDS = 6.0


class Check(NamedTuple):
    """One thing to look at."""

    id: str
    look: Callable[[], Awaitable[Iterable[Finding]]]
    is_needed: bool = False
    """Whether others build on what it finds out: left out, it is carried out, and not told."""


class CheckRunner:
    """Carries out checks until all of their time together is up."""

    def __init__(
        self, *, seconds: float, left_out: Sequence[str], check_seconds: float = CHECK_SECONDS
    ) -> None:
        self._deadline = asyncio.get_running_loop().time() + seconds
        self._left_out = left_out
        self._check_seconds = check_seconds

    async def side_by_side(self, *chains: Sequence[Check]) -> list[Finding]:
        """What the checks find; those of a chain are carried out one after another."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._chain(chain)) for chain in chains]
        return [finding for task in tasks for finding in task.result()]

    async def _chain(self, chain: Sequence[Check]) -> list[Finding]:
        findings: list[Finding] = []
        for check in chain:
            findings += await self._one(check)
        return findings

    async def _one(self, check: Check) -> list[Finding]:
        if check.id not in self._left_out:
            return await self._carried_out(check)
        if check.is_needed:
            await self._carried_out(check)
        return [skipped(check.id, "left out, as --skip says")]

    async def _carried_out(self, check: Check) -> list[Finding]:
        left = self._deadline - asyncio.get_running_loop().time()
        seconds = min(self._check_seconds, left)
        if seconds <= 0:
            return [fault(check.id, "not looked at: the time was up", "give it more: --timeout")]
        try:
            async with asyncio.timeout(seconds):
                return list(await check.look())
        except TimeoutError:
            return [
                fault(
                    check.id,
                    f"no end after {seconds:.0f} s",
                    "something there neither answers nor refuses: look for a firewall or a"
                    " NetworkPolicy that drops packets, or a process that hangs",
                )
            ]
        except Exception as error:  # noqa: BLE001 - one check must not cost all the others
            text = f"the check itself failed: {type(error).__name__}: {error}"
            return [fault(check.id, text, "report it, it should not happen; --skip leaves it out")]
