"""One scheduling profile: filters narrow the candidates, scorers rate them, a picker chooses."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from epp.framework.errors import ConfigError, DropReason, ErrorCode, PlainRejection, Rejection
from epp.framework.scheduling import Filter, Picker, Scorer
from epp.framework.scheduling_results import FilterResult, ProfileResult
from epp.scheduling.observer import PluginObserver, Unobserved
from epp.scheduling.overruns import Overruns
from epp.scheduling.rating import Rating, WeightedScorer
from epp.scheduling.steps import Steps
from epp.support.plugin_faults import PLUGIN_FAULTS, PluginFault

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest


class SchedulerProfile:
    """Chooses endpoints for requests with the plugins of one profile.

    Needs nothing around it: without an observer it is a plain library object.
    """

    def __init__(
        self,
        name: str,
        *,
        filters: Sequence[Filter] = (),
        scorers: Sequence[tuple[Scorer, float]] = (),
        picker: Picker,
        observer: PluginObserver | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._now = now
        observer = observer or Unobserved()
        steps = Steps(observer, profile=name)
        self._filters = tuple(steps.of("Filter", plugin) for plugin in filters)
        self._rating = Rating(
            [
                WeightedScorer.of(steps.of("Scorer", plugin), self._finite(plugin, weight))
                for plugin, weight in scorers
            ],
            Overruns(observer.plugin_switched_off),
            now,
        )
        self._picker = steps.of("Picker", picker)

    @property
    def filters(self) -> Sequence[Filter]:
        """Its filters, in calling order."""
        return [step.plugin for step in self._filters]

    @property
    def scorers(self) -> Sequence[tuple[Scorer, float]]:
        """Its scorers that are not switched off, with their weights."""
        return [(each.step.plugin, each.weight) for each in self._rating.scorers]

    @property
    def picker(self) -> Picker:
        """What chooses."""
        return self._picker.plugin

    def run(self, request: InferenceRequest, candidates: Sequence[Endpoint]) -> ProfileResult:
        """Pick among `candidates`; raises `Rejection` when the filters leave none.

        A scorer that fails costs its score only; what a filter or the picker raises goes through.
        """
        started = self._now()
        filtered: list[FilterResult] = []
        try:
            kept = self._narrow(request, candidates, filtered)
            totals, scored, loads = self._rating.of(request, kept)
            picking_at = self._now()
            endpoints, ended = self._pick(request, kept, totals, picking_at)
        except BaseException:
            self._note_unpicked(request, candidates, filtered)
            raise
        return ProfileResult(
            endpoints=endpoints,
            candidates=kept,
            totals=totals,
            scorers=scored,
            loads=loads,
            filters=filtered,
            picker=self._picker.name,
            started_at=started,
            seconds=ended - started,
            picking_at=picking_at,
        )

    def _narrow(
        self,
        request: InferenceRequest,
        candidates: Sequence[Endpoint],
        results: list[FilterResult],
    ) -> Sequence[Endpoint]:
        """What the filters leave, never nothing; `results` gets what each of them does."""
        for step in self._filters:
            if not candidates:
                break
            started = self._now()
            try:
                kept = _each_once(step.plugin.filter(request, candidates), len(candidates))
                if not set(candidates).issuperset(kept):
                    raise PluginFault(f"filter {step.name!r} returned what it was not given")
            except Rejection:
                raise
            except PLUGIN_FAULTS as error:
                step.failed(error, request)
                raise
            finally:
                seconds = step.ended(request, started, self._now())
            results.append(FilterResult(step.name, candidates, kept, started, seconds))
            candidates = kept
        if not candidates:
            raise PlainRejection(
                ErrorCode.RESOURCE_EXHAUSTED,
                "no endpoints available for the given request",
                drop_reason=DropReason.SATURATED,
                retry_after=1,
            )
        return candidates

    def _pick(
        self,
        request: InferenceRequest,
        candidates: Sequence[Endpoint],
        totals: Sequence[float],
        started: float,
    ) -> tuple[tuple[Endpoint, ...], float]:
        """What is picked, and when that was done."""
        step = self._picker
        try:
            picked = tuple(islice(step.plugin.pick(request, candidates, totals), len(candidates)))
            if not picked:
                raise PluginFault(f"picker {step.name!r} picked nothing")
            for endpoint in picked:
                if endpoint not in candidates:
                    raise PluginFault(f"picker {step.name!r} picked what is no candidate")
        except Rejection:
            raise
        except PLUGIN_FAULTS as error:
            step.failed(error, request)
            raise
        finally:
            ended = self._now()
            step.ended(request, started, ended)
        return picked, ended

    def _note_unpicked(
        self,
        request: InferenceRequest,
        candidates: Sequence[Endpoint],
        filtered: Sequence[FilterResult],
    ) -> None:
        if request.trail is None:
            return
        left = filtered[-1].after if filtered else candidates
        result = ProfileResult(endpoints=(), candidates=left, filters=filtered)
        request.trail.unpicked += ((self.name, result),)

    def _finite(self, scorer: Scorer, weight: float) -> float:
        if not math.isfinite(weight):
            raise ConfigError(
                f"profile {self.name!r}: weight {weight} of scorer {scorer.name!r}:"
                " must be a finite number"
            )
        return float(weight)


def _each_once(given: Iterable[Endpoint], candidates: int) -> tuple[Endpoint, ...]:
    """A copy, whatever a filter gives: lists that overlap or that it goes on changing, generators
    that never end."""
    most = 2 * candidates
    kept = tuple(islice(given, most + 1))
    if len(kept) > most:
        raise PluginFault(f"more than twice the {candidates} endpoints there are")
    return kept if len(kept) < 2 else tuple(dict.fromkeys(kept))
