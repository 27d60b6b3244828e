"""What a dry run writes down: the time of every step, and whom each left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from epp.framework.request_control import Screener
from epp.framework.scheduling import Filter, FilterResult

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest


class TimedStep(Struct, frozen=True):
    """One call of a plugin."""

    extension_point: str
    plugin: str
    profile: str
    seconds: float
    failed: bool


class LeftOut(Struct, frozen=True):
    """Endpoints that are no candidates, for one reason."""

    by: str
    plugin: str
    endpoints: Sequence[Endpoint]


class Recording:
    """Notes of one dry run."""

    def __init__(self) -> None:
        self.pool_size: int | None = None
        """None: the pool was not looked at."""
        self.steps: list[TimedStep] = []
        self.left_out: list[LeftOut] = []
        self.filters: dict[str, list[FilterResult]] = {}
        """By profile, also of profiles that picked nothing."""

    def leave_out(
        self, by: str, before: Sequence[Endpoint], after: Sequence[Endpoint], plugin: str = ""
    ) -> None:
        """Of `before` only `after` stays."""
        kept = set(after)
        gone = [endpoint for endpoint in before if endpoint not in kept]
        if gone:
            self.left_out.append(LeftOut(by, plugin, gone))


class Watch:
    """Observer of pipeline, hooks and one profile that writes down instead of counting."""

    def __init__(self, recording: Recording, profile: str = "") -> None:
        self._recording = recording
        self._profile = profile
        self._failed = False

    def plugin_timer(
        self, extension_point: str, plugin_type: str, plugin_name: str
    ) -> Callable[[float], None]:
        """What notes each call."""

        def took(seconds: float) -> None:
            failed, self._failed = self._failed, False
            self._recording.steps.append(
                TimedStep(extension_point, plugin_name, self._profile, seconds, failed)
            )

        return took

    def plugin_error(self, extension_point: str, plugin_type: str, plugin_name: str) -> None:
        """The call that is about to be timed failed."""
        self._failed = True

    def plugin_switched_off(self, plugin_type: str, plugin_name: str) -> None:
        """Not for anybody but this dry run."""

    def response_phase_error(self) -> None:
        """There is no response."""

    def scheduled(self, seconds: float, target_model: str, endpoint: Endpoint | None) -> None:
        """All profiles together."""
        self._recording.steps.append(TimedStep("Scheduling", "", "", seconds, endpoint is None))


class WatchedScreener(Screener):
    """A screener whose answers are noted."""

    def __init__(self, screener: Screener, recording: Recording) -> None:
        self.identify(type=screener.type, name=screener.name)
        self._screener = screener
        self._recording = recording

    def screen(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """What the screener says."""
        kept = list(self._screener.screen(request, endpoints))
        self._recording.leave_out("screener", endpoints, kept, self.name)
        return kept


class WatchedFilter(Filter):
    """A filter whose answers are noted, also when nothing is left."""

    def __init__(self, inner: Filter, profile: str, recording: Recording) -> None:
        self.identify(type=inner.type, name=inner.name)
        self._filter = inner
        self._results = recording.filters.setdefault(profile, [])

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """What the filter says."""
        kept = self._filter.filter(request, endpoints)
        # As it came: the profile checks it, and something without an end must not be copied here.
        if isinstance(kept, list | tuple):
            self._results.append(FilterResult(self.name, endpoints, tuple(kept)))
        return kept
