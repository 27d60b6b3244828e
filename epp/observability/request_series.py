"""The series of requests, under their model, target model, fairness id and priority."""

from __future__ import annotations

from functools import cached_property

from epp.observability import metric_catalogue as catalogue
from epp.observability.instruments import Counter, FamilySet, Gauge, Histogram
from epp.observability.label_caps import OTHER, LabelCap

MAX_MODELS = 1000
MAX_FAIRNESS_IDS = 1000
MAX_PRIORITIES = 100
# The caps bound each label, not their product. With 2000 combinations and every histogram filled
# the page has 79 MB, written in 0.25 s of CPU: 0.2 ms a slice on average, 2 to 12 ms at worst.
MAX_LABEL_SETS = 2000
MAX_LABEL_SETS_WITHOUT_FAIRNESS = 1000


class RequestSeries:
    """The series of one set of label values, shared by all requests that have it.

    Each is looked up, and with that on the page, when it is counted for the first time.
    """

    def __init__(self, families: RequestFamilies, values: tuple[str, ...]) -> None:
        self._families = families
        self.values = values

    @cached_property
    def total(self) -> Counter:
        return self._families.total.labels(self.values)

    @cached_property
    def running(self) -> Gauge:
        return self._families.running.labels(self.values)

    @cached_property
    def size(self) -> Histogram:
        return self._families.size.labels(self.values)

    @cached_property
    def duration(self) -> Histogram:
        return self._families.duration.labels(self.values)

    @cached_property
    def response_size(self) -> Histogram:
        return self._families.response_size.labels(self.values)

    @cached_property
    def input_tokens(self) -> Histogram:
        return self._families.input_tokens.labels(self.values)

    @cached_property
    def output_tokens(self) -> Histogram:
        return self._families.output_tokens.labels(self.values)

    @cached_property
    def cached_tokens(self) -> Histogram:
        return self._families.cached_tokens.labels(self.values)

    @cached_property
    def ntpot(self) -> Histogram:
        return self._families.ntpot.labels(self.values)

    @cached_property
    def tpot(self) -> Histogram:
        return self._families.tpot.labels(self.values)

    @cached_property
    def inter_token(self) -> Histogram:
        return self._families.inter_token.labels(self.values)

    @cached_property
    def ttft_streaming(self) -> Histogram:
        return self._families.ttft.labels((*self.values, "true"))

    @cached_property
    def ttft_whole(self) -> Histogram:
        return self._families.ttft.labels((*self.values, "false"))

    def error(self, code: str) -> Counter:
        """The errors of one code."""
        return self._families.errors.labels((*self.values, code))


class RequestFamilies:
    """The metrics labelled by request, and the label sets in use."""

    def __init__(self, build: FamilySet) -> None:
        self.total = build.counter(catalogue.REQUEST_TOTAL)
        self.errors = build.counter(catalogue.REQUEST_ERROR_TOTAL)
        self.duration = build.histogram(catalogue.REQUEST_DURATION)
        self.size = build.histogram(catalogue.REQUEST_SIZE)
        self.response_size = build.histogram(catalogue.RESPONSE_SIZE)
        self.input_tokens = build.histogram(catalogue.INPUT_TOKENS)
        self.output_tokens = build.histogram(catalogue.OUTPUT_TOKENS_GENERATED)
        self.cached_tokens = build.histogram(catalogue.CACHED_TOKENS)
        self.running = build.gauge(catalogue.REQUEST_RUNNING)
        self.ntpot = build.histogram(catalogue.REQUEST_NTPOT)
        self.ttft = build.histogram(catalogue.REQUEST_TTFT)
        self.tpot = build.histogram(catalogue.REQUEST_TPOT)
        self.inter_token = build.histogram(catalogue.REQUEST_ITL)
        self.models = LabelCap(MAX_MODELS)
        self._fairness_ids = LabelCap(MAX_FAIRNESS_IDS)
        self._priorities = LabelCap(MAX_PRIORITIES)
        self._label_sets: dict[tuple[str, ...], RequestSeries] = {}

    def series(self, model: str, target: str, fairness_id: str, priority: int) -> RequestSeries:
        """The series of a request, under label values within the caps."""
        key = (model, target, fairness_id, str(priority))
        known = self._label_sets.get(key)
        return self._capped(*key) if known is None else known

    def _capped(self, model: str, target: str, fairness_id: str, priority: str) -> RequestSeries:
        model = self.models.admit(model)
        target = self.models.admit(target)
        fairness_id = self._fairness_ids.admit(fairness_id)
        priority = self._priorities.admit(priority)
        for values, limit in (
            ((model, target, fairness_id, priority), MAX_LABEL_SETS),
            (
                (model, target, OTHER, priority),
                MAX_LABEL_SETS + MAX_LABEL_SETS_WITHOUT_FAIRNESS,
            ),
        ):
            known = self._label_sets.get(values)
            if known is not None:
                return known
            if len(self._label_sets) < limit:
                return self._label_sets.setdefault(values, RequestSeries(self, values))
        last_resort = (OTHER, OTHER, OTHER, priority)
        return self._label_sets.setdefault(last_resort, RequestSeries(self, last_resort))
