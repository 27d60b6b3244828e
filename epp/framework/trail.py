"""The trail of a request: what happened until it had its endpoint, for those who ask why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.scheduling_results import FilterResult, ProfileResult, SchedulingResult


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


class Trail(Struct, eq=False, kw_only=True):
    """What a request passed, in the order in which it did. Plugins have no use for it."""

    started_at: float
    """When all of the request was there."""
    scheduling_at: float | None = None
    """When the scheduler was asked; None: it was not, as with all that is missing here."""
    pool: Sequence[Endpoint] | None = None
    located: Sequence[Endpoint] = ()
    """What the gateway's subset left of the pool."""
    found: Sequence[Endpoint] | None = None
    """What ejections left of that."""
    screenings: tuple[FilterResult, ...] = ()
    screened: Sequence[Endpoint] = ()
    """What screeners left: the candidates of the scheduler."""
    result: SchedulingResult | None = None
    unpicked: tuple[tuple[str, ProfileResult], ...] = ()
    """Names of profiles that picked nothing, and how far they came."""
    calls: list[Any] = field(default_factory=list)
    """`StepName`, start and seconds of each call of a plugin, as they ended, in a row: with a tuple
    for each the trails that are kept would be a fifth larger."""
    failures: frozenset[int] = frozenset()
    """Where in `calls` those begin that failed."""

    def fails(self) -> None:
        """The call that is about to end fails."""
        self.failures |= {len(self.calls)}

    @property
    def steps(self) -> Iterator[TimedStep]:
        """The calls of plugins, as they ended."""
        calls = self.calls
        for place in range(0, len(calls), 3):
            name, started_at, seconds = calls[place : place + 3]
            yield TimedStep(name, started_at, seconds, place in self.failures)
