"""Metrics pages of model servers, and of the pickers of other clusters (datalayer §3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from epp.framework.data_layer import METRICS_PAGE, HttpTarget, PollingSource
from epp.framework.endpoint import Endpoint
from epp.framework.plugin import PluginContext, Stability
from epp.plugins.data_sources.http_parameters import MAX_PORT, TlsSourceParameters, UrlPath
from epp.plugins.engine_labels import ENGINE_LABEL, engine_named_by

DEFAULT_PATH = "/metrics"
# This server answers JSON at /metrics.
DEFAULT_ENGINE_PATHS: Mapping[str, str] = {"trtllm-serve": "/prometheus/metrics"}


class MetricsDataSourceParameters(TlsSourceParameters):
    """Where model servers have their metrics."""

    path: UrlPath | None = Field(
        None,
        description="Path of the page; left out, it is /metrics, and /prometheus/metrics of"
        " trtllm-serve.",
    )
    engine_paths: dict[str, UrlPath] | None = Field(
        None, description="Paths of single engines, by value of the engine label."
    )
    engine_label_key: str = Field(
        ENGINE_LABEL, min_length=1, description="Label of pods that names their engine."
    )
    port: int | None = Field(
        None, ge=1, le=MAX_PORT, description="Port of all pages, instead of that of the endpoint."
    )


class MetricsDataSource(PollingSource):
    """Polls the metrics page of every endpoint."""

    type = "metrics-data-source"
    default_extractor = "core-metrics-extractor"
    payload = METRICS_PAGE

    def __init__(self, parameters: MetricsDataSourceParameters, context: PluginContext) -> None:
        parameters.warn_of_ignored(context.name)
        self.interval_seconds = parameters.interval_seconds
        self._parameters = parameters
        self._path = parameters.path or DEFAULT_PATH
        paths = {} if parameters.path else DEFAULT_ENGINE_PATHS
        self._engine_paths = paths if parameters.engine_paths is None else parameters.engine_paths

    def target(self, endpoint: Endpoint) -> HttpTarget:
        """The page at the endpoint's own port, unless there is one for all."""
        engine = engine_named_by(endpoint, self._parameters.engine_label_key)
        return self._parameters.target(
            host=endpoint.ip,
            port=self._parameters.port or endpoint.port,
            path=self._engine_paths.get(engine, self._path),
        )


class MulticlusterMetricsDataSourceParameters(TlsSourceParameters):
    """Where the pickers of other clusters have their metrics."""

    scheme: Literal["http", "https"] = Field("https", description="http or https.")
    insecure_skip_verify: bool = Field(
        False, description="Whether certificates of endpoints are accepted unseen (https)."
    )
    path: UrlPath = Field(DEFAULT_PATH, description="Path of the page.")
    port: int | None = Field(None, ge=1, le=MAX_PORT, description="Ignored, as in the reference.")


class MulticlusterMetricsDataSource(PollingSource):
    """Polls the metrics page of endpoints that each stand for the pool of a cluster."""

    type = "multicluster-metrics-data-source"
    stability = Stability.ALPHA
    default_extractor = "multicluster-metrics-extractor"
    payload = METRICS_PAGE

    def __init__(
        self, parameters: MulticlusterMetricsDataSourceParameters, context: PluginContext
    ) -> None:
        parameters.warn_of_ignored(context.name)
        self.interval_seconds = parameters.interval_seconds
        self._parameters = parameters

    def target(self, endpoint: Endpoint) -> HttpTarget:
        """The page at the endpoint's own port."""
        return self._parameters.target(
            host=endpoint.ip, port=endpoint.port, path=self._parameters.path
        )
