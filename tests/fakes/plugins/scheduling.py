"""Small plugins to build profiles and schedulers of, and an observer that remembers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from epp.framework.endpoint import Endpoint
from epp.framework.request import InferenceRequest
from epp.framework.scheduling import Filter, Picker, ProfileHandler, Scorer
from epp.framework.scheduling_results import ProfileResult, SchedulingResult

Score = Callable[[Endpoint], float]


class Scores(Scorer):
    """Gives every endpoint the score that a function tells; or raises what it is given."""

    def __init__(self, score: Score | Exception, name: str = "scores") -> None:
        self._score = score
        self.calls = 0
        self.identify(type="scores", name=name)

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        self.calls += 1
        if isinstance(self._score, Exception):
            raise self._score
        return [self._score(endpoint) for endpoint in endpoints]


class Answers(Filter, Scorer, Picker):
    """Answers with the same thing whatever it is asked, right or wrong; exceptions are raised."""

    type = "answers"

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def _answer(self) -> list[Endpoint]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value] # what the contract forbids, too

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        return self._answer()

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        return self._answer()  # type: ignore[return-value] # same

    def pick(
        self, request: InferenceRequest, endpoints: Sequence[Endpoint], totals: Sequence[float]
    ) -> list[Endpoint]:
        return self._answer()


class Keeps(Filter):
    """Keeps the endpoints for which a function says so."""

    type = "keeps"

    def __init__(self, keep: Callable[[Endpoint], bool]) -> None:
        self._keep = keep

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        return [endpoint for endpoint in endpoints if self._keep(endpoint)]


class PicksBest(Picker):
    """Picks the first of those with the highest total."""

    type = "picks-best"

    def pick(
        self, request: InferenceRequest, endpoints: Sequence[Endpoint], totals: Sequence[float]
    ) -> list[Endpoint]:
        return [endpoints[totals.index(max(totals))]]


class RunsInOrder(ProfileHandler):
    """Runs profiles one after another in rounds; the first of them that picked is primary."""

    type = "runs-in-order"

    def __init__(self, *rounds: Sequence[str], outcome: Exception | str | None = None) -> None:
        self._rounds = rounds
        self._outcome = outcome

    def pick(
        self,
        request: InferenceRequest,
        profiles: Sequence[str],
        results: Mapping[str, ProfileResult | None],
    ) -> Sequence[str]:
        ran = len(results)
        for names in self._rounds:
            if ran <= 0:
                return names
            ran -= len(names)
        return ()

    def process(
        self, request: InferenceRequest, results: Mapping[str, ProfileResult | None]
    ) -> SchedulingResult:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        picked = {name: result for name, result in results.items() if result is not None}
        return SchedulingResult(primary=self._outcome or next(iter(picked)), profiles=picked)


class Remembers:
    """An observer that can be asked what it was told."""

    def __init__(self) -> None:
        self.durations: list[tuple[str, str, str, float]] = []
        self.errors: Counter[tuple[str, str, str]] = Counter()
        self.switched_off: list[tuple[str, str]] = []

    def plugin_timer(
        self, extension_point: str, plugin_type: str, plugin_name: str
    ) -> Callable[[float], None]:
        return lambda seconds: self.durations.append(
            (extension_point, plugin_type, plugin_name, seconds)
        )

    def plugin_error(self, extension_point: str, plugin_type: str, plugin_name: str) -> None:
        self.errors[extension_point, plugin_type, plugin_name] += 1

    def plugin_switched_off(self, plugin_type: str, plugin_name: str) -> None:
        self.switched_off.append((plugin_type, plugin_name))
