"""Load of the pool of another cluster, from its picker's metrics page (datalayer §6.5)."""

from __future__ import annotations

from pydantic import Field

from epp.framework.data import DataType, Output
from epp.framework.data_layer import METRICS_PAGE, ExtractionError, Extractor
from epp.framework.data_types import MULTICLUSTER_KV_CACHE_UTILIZATION, MULTICLUSTER_QUEUE_SIZE
from epp.framework.endpoint import Endpoint
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.plugins.extractors.page_scanner import is_exposition
from epp.plugins.extractors.series_spec import SeriesSpecText, parse_series_spec
from epp.plugins.extractors.signals import COUNT, RATIO, Kind, Signal, required


class MulticlusterMetricsExtractorParameters(Parameters):
    """Names on the page of the other picker."""

    kv_cache_utilization_metric: SeriesSpecText = Field(
        "llm_d_epp_average_kv_cache_utilization",
        min_length=1,
        description="Mean share of the KV cache in use.",
    )
    queue_size_metric: SeriesSpecText = Field(
        "llm_d_epp_average_queue_size",
        min_length=1,
        description="Mean number of waiting requests.",
    )


class MulticlusterMetricsExtractor(Extractor):
    """Keeps the mean queue and the mean KV-cache usage of the pool behind an endpoint."""

    type = "multicluster-metrics-extractor"
    payload = METRICS_PAGE
    stability = Stability.ALPHA

    def __init__(
        self, parameters: MulticlusterMetricsExtractorParameters, context: PluginContext
    ) -> None:
        self._signals = (
            _PoolSignal(parameters.queue_size_metric, COUNT, MULTICLUSTER_QUEUE_SIZE, context),
            _PoolSignal(
                parameters.kv_cache_utilization_metric,
                RATIO,
                MULTICLUSTER_KV_CACHE_UTILIZATION,
                context,
            ),
        )

    def extract(self, payload: bytes, endpoint: Endpoint, now: float) -> bool:
        """Take both numbers; each that is missing keeps its old value."""
        problems: list[str] = []
        is_any = False
        for signal in self._signals:
            is_any |= signal.take(payload, endpoint, problems)
        if not is_any and not is_exposition(payload):
            raise ExtractionError("not a page of metrics", applied=False)
        if problems:
            raise ExtractionError("; ".join(problems), applied=is_any, count=len(problems))
        return is_any


class _PoolSignal:
    """A number of the page and the attributes it becomes."""

    def __init__(
        self, spec: str, kind: Kind, attribute: DataType[float], context: PluginContext
    ) -> None:
        self._signal = Signal(specs=(parse_series_spec(spec),), kind=kind, combination="first")
        # Its readers name no producer, and read what anybody writes under the empty name.
        self._outputs = (context.produces(attribute), Output(attribute, ""))

    def take(self, page: bytes, endpoint: Endpoint, problems: list[str]) -> bool:
        """Put the number on the endpoint; whether it was there."""
        value = required(self._signal, page, problems)
        if value is None:
            return False
        for output in self._outputs:
            output.put_on(endpoint, value)
        return True
