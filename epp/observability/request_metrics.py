"""What is measured of one request, under its model, target model, fairness id and priority."""

from __future__ import annotations

from epp.framework.usage import Usage
from epp.observability import metric_catalogue as catalogue
from epp.observability.instruments import FamilySet, Histogram
from epp.observability.label_caps import OTHER, LabelCap

MAX_MODELS = 1000
MAX_FAIRNESS_IDS = 1000
MAX_PRIORITIES = 100
# The caps bound each label, not their product. With 2000 combinations and every histogram filled
# the page has 79 MB, written in 0.25 s of CPU: 0.2 ms a slice on average, 2 to 12 ms at worst.
MAX_LABEL_SETS = 2000
MAX_LABEL_SETS_WITHOUT_FAIRNESS = 1000


class RequestLabels:
    """One set of label values, shared by all requests that have it."""

    __slots__ = ("inter_token", "values")

    def __init__(self, values: tuple[str, ...]) -> None:
        self.values = values
        self.inter_token: Histogram | None = None


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
        self._label_sets: dict[tuple[str, ...], RequestLabels] = {}

    def labels(self, model: str, target: str, fairness_id: str, priority: int) -> RequestLabels:
        """The label set of a request, within the caps."""
        key = (model, target, fairness_id, str(priority))
        known = self._label_sets.get(key)
        return self._capped(*key) if known is None else known

    def _capped(self, model: str, target: str, fairness_id: str, priority: str) -> RequestLabels:
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
                return self._label_sets.setdefault(values, RequestLabels(values))
        last_resort = (OTHER, OTHER, OTHER, priority)
        return self._label_sets.setdefault(last_resort, RequestLabels(last_resort))


class RequestMetrics:
    """Measures one request. What must happen at most once, or in pairs, does."""

    __slots__ = ("_families", "_has_error", "_is_running", "_labels")

    def __init__(self, families: RequestFamilies, labels: RequestLabels) -> None:
        self._families = families
        self._labels = labels
        self._is_running = False
        self._has_error = False

    def admitted(self, size_bytes: int) -> None:
        """An endpoint was picked; `size_bytes` is the body as forwarded."""
        values = self._labels.values
        self._families.total.labels(values).inc()
        self._families.size.labels(values).observe(size_bytes)

    def running_started(self) -> None:
        """The body went back to the gateway. Not counted when the model name is empty."""
        if not self._is_running and self._labels.values[0]:
            self._is_running = True
            self._families.running.labels(self._labels.values).inc()

    def running_ended(self) -> None:
        """The stream is over, however it ended; undoes `running_started` if that was called."""
        if self._is_running:
            self._is_running = False
            self._families.running.labels(self._labels.values).dec()

    def error(self, code: str) -> None:
        """The request ended with an error; only the first one counts."""
        if not self._has_error:
            self._has_error = True
            self._families.errors.labels((*self._labels.values, code)).inc()

    def inter_token(self) -> Histogram:
        """Of the times between two pieces of a streamed response body."""
        histogram = self._labels.inter_token
        if histogram is None:
            histogram = self._families.inter_token.labels(self._labels.values)
            self._labels.inter_token = histogram
        return histogram

    def completed(
        self,
        *,
        seconds: float,
        response_bytes: int | None,
        streaming: bool,
        ttft_seconds: float | None = None,
        usage: Usage | None = None,
    ) -> None:
        """The response reached its natural end, `seconds` after the request's headers.

        `response_bytes` is None where bodies are not shown.
        """
        families, values = self._families, self._labels.values
        if seconds > 0:
            families.duration.labels(values).observe(seconds)
        if response_bytes is not None:
            families.response_size.labels(values).observe(response_bytes)
        if ttft_seconds is not None:
            text = "true" if streaming else "false"
            families.ttft.labels((*values, text)).observe(ttft_seconds)
        if usage is None:
            return
        self._tokens(usage)
        generated = usage.completion_tokens or 0
        if generated > 0:
            families.ntpot.labels(values).observe(seconds / generated)
        if streaming and generated > 1 and ttft_seconds is not None:
            families.tpot.labels(values).observe((seconds - ttft_seconds) / (generated - 1))

    def _tokens(self, usage: Usage) -> None:
        families, values = self._families, self._labels.values
        if usage.prompt_tokens:
            families.input_tokens.labels(values).observe(usage.prompt_tokens)
        if usage.completion_tokens:
            families.output_tokens.labels(values).observe(usage.completion_tokens)
        if usage.cached_tokens is not None:
            families.cached_tokens.labels(values).observe(usage.cached_tokens)
