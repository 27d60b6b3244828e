"""Metrics pages of NVIDIA's GPU exporter (datalayer §6.2)."""

from __future__ import annotations

from pydantic import Field

from epp.framework.data_layer import METRICS_PAGE, HttpTarget, PollingSource
from epp.framework.endpoint import Endpoint
from epp.framework.plugin import Stability
from epp.plugins.data_sources.http_parameters import MAX_PORT, HttpSourceParameters, UrlPath


class DcgmDataSourceParameters(HttpSourceParameters):
    """Where the exporter has its metrics."""

    path: UrlPath = Field("/metrics", description="Path of the page.")
    port: int = Field(9400, ge=1, le=MAX_PORT, description="Port of the page.")
    use_node_address: bool = Field(
        False, description="Whether the node is asked rather than the pod; the pod if unknown."
    )


class DcgmDataSource(PollingSource):
    """Polls the GPU exporter beside every endpoint, or of its node."""

    type = "dcgm-data-source"
    stability = Stability.ALPHA
    default_extractor = "dcgm-extractor"
    payload = METRICS_PAGE

    def __init__(self, parameters: DcgmDataSourceParameters) -> None:
        self.interval_seconds = parameters.interval_seconds
        self._parameters = parameters

    def target(self, endpoint: Endpoint) -> HttpTarget:
        """The page of the pod's or the node's exporter."""
        node = endpoint.node_address if self._parameters.use_node_address else ""
        return HttpTarget(
            scheme=self._parameters.scheme,
            host=node or endpoint.ip,
            port=self._parameters.port,
            path=self._parameters.path,
            insecure_skip_verify=self._parameters.insecure_skip_verify,
        )
