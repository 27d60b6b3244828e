"""GPU utilization of an endpoint, from NVIDIA's exporter (datalayer §6.2)."""

from __future__ import annotations

from epp.framework.data_layer import METRICS_PAGE, ExtractionError, Extractor
from epp.framework.data_types import GPU_UTILIZATION
from epp.framework.endpoint import Endpoint
from epp.framework.plugin import PluginContext, Stability
from epp.plugins.extractors.page_scanner import labels_of
from epp.plugins.extractors.series_spec import SeriesSpec

_UTILIZATION = SeriesSpec("DCGM_FI_DEV_GPU_UTIL")
_PERCENT = 100.0


class DcgmExtractor(Extractor):
    """Keeps the utilization of the busiest GPU of a pod, 0 to 1."""

    type = "dcgm-extractor"
    payload = METRICS_PAGE
    stability = Stability.ALPHA
    ignores_parameters = True

    def __init__(self, context: PluginContext) -> None:
        self._utilization = context.produces(GPU_UTILIZATION)

    def extract(self, payload: bytes, endpoint: Endpoint, now: float) -> bool:
        """Take the largest of the pod's series, and of those that name no pod."""
        pods = (b"", endpoint.pod_name.encode())
        percents = [
            value
            for label_set, value, _ in _UTILIZATION.series_on(payload)
            if 0 <= value <= _PERCENT and labels_of(label_set).get(b"pod", b"") in pods
        ]
        if not percents:
            raise ExtractionError(
                f"{_UTILIZATION}: no usable series of pod {endpoint.pod_name}", applied=False
            )
        self._utilization.put_on(endpoint, max(percents) / _PERCENT)
        return True
