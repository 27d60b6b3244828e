"""One scheduling profile: filters narrow the candidates, scorers rate them, a picker chooses."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar

import structlog

from epp.framework.errors import ConfigError, DropReason, ErrorCode, Rejection
from epp.framework.plugin import Plugin
from epp.framework.scheduling import (
    Filter,
    FilterResult,
    Picker,
    ProfileResult,
    Scorer,
    ScorerResult,
)
from epp.scheduling.observer import PluginObserver, Unobserved
from epp.scheduling.overruns import Overruns
from epp.support.fault_log import FaultLog
from epp.support.plugin_faults import PLUGIN_FAULTS, PluginFault

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest

log = structlog.get_logger(__name__)

SCORER_BUDGET_SECONDS = 0.1
"""Longest a scorer may take: nothing else of the process runs meanwhile."""

P = TypeVar("P", bound=Plugin)


@dataclass(frozen=True, slots=True)
class _Step(Generic[P]):
    # Names and bound methods are looked up once: a cycle is made of few microseconds.
    plugin: P
    name: str
    took: Callable[[float], None]
    failed: Callable[[BaseException], None]
    weight: float = 0.0


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
        self._observer = observer or Unobserved()
        self._faults = FaultLog("plugin failed", log.warning)
        self._overruns = Overruns(self._observer.plugin_switched_off)
        self._filters = tuple(self._step("Filter", plugin) for plugin in filters)
        self._scorers = tuple(
            self._step("Scorer", plugin, self._finite(plugin, weight)) for plugin, weight in scorers
        )
        self._picker = self._step("Picker", picker)

    def run(self, request: InferenceRequest, candidates: Sequence[Endpoint]) -> ProfileResult:
        """Pick among `candidates`; raises `Rejection` when the filters leave none.

        A scorer that fails costs its score only; what a filter or the picker raises goes through.
        """
        kept, filtered = self._narrow(request, candidates)
        if not kept:
            raise Rejection(
                ErrorCode.RESOURCE_EXHAUSTED,
                "no endpoints available for the given request",
                drop_reason=DropReason.SATURATED,
                retry_after=1,
            )
        totals, scored = self._rate(request, kept)
        return ProfileResult(
            endpoints=self._pick(request, kept, totals),
            candidates=kept,
            totals=totals,
            scorers=scored,
            filters=filtered,
        )

    def _narrow(
        self, request: InferenceRequest, candidates: Sequence[Endpoint]
    ) -> tuple[Sequence[Endpoint], Sequence[FilterResult]]:
        if not self._filters:
            return candidates, ()
        results = []
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
                step.failed(error)
                raise
            finally:
                step.took(self._now() - started)
            results.append(FilterResult(step.name, candidates, kept))
            candidates = kept
        return candidates, results

    def _rate(
        self, request: InferenceRequest, candidates: Sequence[Endpoint]
    ) -> tuple[list[float], list[ScorerResult]]:
        totals: list[float] = []
        results = []
        for step in self._scorers:
            scores = self._scores(step, request, candidates)
            if scores is None:
                continue
            weight = step.weight
            totals = (
                [total + weight * score for total, score in zip(totals, scores, strict=True)]
                if totals
                else [weight * score for score in scores]
            )
            results.append(ScorerResult(step.name, weight, scores))
        return totals or [0.0] * len(candidates), results

    def _scores(
        self, step: _Step[Scorer], request: InferenceRequest, candidates: Sequence[Endpoint]
    ) -> list[float] | None:
        """Clamped scores in the order of `candidates`; None if there are none to be had."""
        started = self._now()
        try:
            scores = [
                score if 0.0 <= score <= 1.0 else _clamped(score)
                for score in map(
                    float, islice(step.plugin.score(request, candidates), len(candidates) + 1)
                )
            ]
            if len(scores) != len(candidates):
                raise PluginFault(f"{len(scores)} scores for {len(candidates)} endpoints")
        except PLUGIN_FAULTS as error:  # its score is missing (decision 1)
            step.failed(error)
            return None
        finally:
            seconds = self._now() - started
            step.took(seconds)
            self._watch(step.plugin, seconds)
        return scores

    def _pick(
        self, request: InferenceRequest, candidates: Sequence[Endpoint], totals: Sequence[float]
    ) -> tuple[Endpoint, ...]:
        step = self._picker
        started = self._now()
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
            step.failed(error)
            raise
        finally:
            step.took(self._now() - started)
        return picked

    def _watch(self, scorer: Scorer, seconds: float) -> None:
        self._overruns.took(scorer, seconds, SCORER_BUDGET_SECONDS)
        if seconds > SCORER_BUDGET_SECONDS and self._overruns.is_off(scorer):
            self._scorers = tuple(step for step in self._scorers if step.plugin is not scorer)

    def _step(self, extension_point: str, plugin: P, weight: float = 0.0) -> _Step[P]:
        of = (extension_point, plugin.type, plugin.name)
        return _Step(
            plugin,
            plugin.name,
            partial(self._observer.plugin_duration, *of),
            partial(self._failed, of),
            weight,
        )

    def _failed(self, of: tuple[str, str, str], error: BaseException) -> None:
        self._observer.plugin_error(*of)
        point, plugin_type, name = of
        self._faults.tell(name, error, extension_point=point, plugin=name, type=plugin_type)

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


def _clamped(score: float) -> float:
    """What counts of a score out of bounds; NaN says that there is none."""
    return 1.0 if score > 1.0 else 0.0
