"""What happens to a pool that its people want to read beside it, as Kubernetes Events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from epp.kubernetes.events import Note

LOOK_SECONDS = 1.0
MOST_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How things stand; None: not known yet."""

    plan: object = None
    """The configuration in force, by identity."""
    config_problem: str | None = None
    pool_problem: str | None = None
    endpoints: int | None = None
    ejected: frozenset[str] = frozenset()
    leads: bool | None = None
    """None: nobody is elected."""


def happenings(old: Standing, new: Standing) -> Iterator[Note]:
    """What led from one to the other."""
    if new.leads is False:
        return  # the leader tells
    if new.leads and not old.leads:
        yield Note(reason="BecameLeader", message="this replica picks from here on")
    yield from _of_configuration(old, new)
    if new.pool_problem and new.pool_problem != old.pool_problem:
        text = f"the last good version stays in force: {new.pool_problem}"
        yield Note(type="Warning", reason="PoolRejected", message=text)
    if new.endpoints == 0 and old.endpoints != 0:
        text = "every request is answered with 503: no pod that is selected is ready"
        yield Note(type="Warning", reason="NoReadyEndpoints", message=text)
    elif new.endpoints and old.endpoints == 0:
        text = f"there are endpoints again: {new.endpoints}"
        yield Note(reason="EndpointsReady", message=text)
    if ejected := sorted(new.ejected - old.ejected):
        more = len(ejected) - MOST_NAMED
        names = ", ".join([*ejected[:MOST_NAMED], *([f"and {more} more"] if more > 0 else [])])
        text = f"no requests for a while, it answers with errors or not at all: {names}"
        yield Note(type="Warning", reason="EndpointEjected", message=text)


def _of_configuration(old: Standing, new: Standing) -> Iterator[Note]:
    if new.config_problem and new.config_problem != old.config_problem:
        text = f"the last good configuration stays in force: {new.config_problem}"
        yield Note(type="Warning", reason="ConfigurationRejected", message=text)
    elif old.plan is not None and new.plan is not old.plan:
        text = "a changed configuration is in force"
        yield Note(reason="ConfigurationReloaded", message=text)


class Watchman:
    """Looks every second, so that what flickers is one happening at most."""

    def __init__(
        self,
        look: Callable[[], Standing],
        tell: Callable[[Note], None],
        pause: float = LOOK_SECONDS,
    ) -> None:
        self._look = look
        self._tell = tell
        self._pause = pause
        self._seen = Standing()

    async def run(self) -> None:
        """Look for ever."""
        while True:
            seen, self._seen = self._seen, self._look()
            for note in happenings(seen, self._seen):
                self._tell(note)
            await asyncio.sleep(self._pause)
