"""The trail of a request: what happened until it had its endpoint, for those who ask why."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.scheduling import FilterResult, ProfileResult, SchedulingResult


class StepName(Struct, frozen=True, gc=False):
    """A plugin, and what it is called for."""

    extension_point: str
    """As in the label of `llm_d_epp_plugin_duration_seconds`."""
    plugin: str
    profile: str = ""
    """Of the steps of one scheduling profile."""


class TimedStep(Struct, frozen=True, gc=False):
    """One call of a plugin."""

    name: StepName
    started_at: float
    """Monotonic seconds, as all times of a trail."""
    seconds: float
    failed: bool


def _no_times() -> array[float]:
    return array("d")


class Trail(Struct, eq=False, kw_only=True):
    """What a request passed, in the order in which it did. Plugins have no use for it."""

    started_at: float
    """When all of the request was there."""
    scheduling_at: float | None = None
    """When the scheduler was asked; None: it was not, as with all that is missing here."""
    pool: Sequence[Endpoint] | None = None
    located: Sequence[Endpoint] = ()
    """What the gateway's subset left of the pool."""
    found: Sequence[Endpoint] = ()
    """What ejections left of that."""
    screenings: tuple[FilterResult, ...] = ()
    screened: Sequence[Endpoint] = ()
    """What screeners left: the candidates of the scheduler."""
    result: SchedulingResult | None = None
    unpicked: tuple[tuple[str, ProfileResult], ...] = ()
    """Names of profiles that picked nothing, and how far they came."""
    # Steps lie flat: one object for each, with its numbers, would take three times the room, and
    # trails are kept by the hundred.
    _names: list[StepName] = field(default_factory=list)
    _times: array[float] = field(default_factory=_no_times)
    _failures: tuple[int, ...] = ()
    _is_failing: bool = False

    def fails(self) -> None:
        """The step that is about to end fails."""
        self._is_failing = True

    def took(self, step: StepName, started_at: float, seconds: float) -> None:
        """A step has ended, well or not."""
        if self._is_failing:
            self._is_failing = False
            self._failures += (len(self._names),)
        self._names.append(step)
        self._times.append(started_at)
        self._times.append(seconds)

    @property
    def steps(self) -> Iterator[TimedStep]:
        """The calls of plugins, as they ended."""
        for index, name in enumerate(self._names):
            started_at, seconds = self._times[2 * index : 2 * index + 2]
            yield TimedStep(name, started_at, seconds, index in self._failures)
