"""Where endpoints run, from the labels of their pods (datalayer §6.3)."""

from __future__ import annotations

from pydantic import Field

from epp.framework.data_layer import EndpointListener
from epp.framework.data_types import TOPOLOGY, Topology
from epp.framework.endpoint import Endpoint
from epp.framework.plugin import Parameters, PluginContext, Stability

_UNKNOWN = Topology()


class TopologyExtractorParameters(Parameters):
    """Labels of pods; nothing reads those of nodes, something has to copy them."""

    hostname: str = Field(
        "kubernetes.io/hostname",
        description="Label with the host; without it the pod's own hostname counts.",
    )
    rack: str = Field("topology.kubernetes.io/rack", description="Label with the rack.")
    zone: str = Field("topology.kubernetes.io/zone", description="Label with the zone.")
    region: str = Field("topology.kubernetes.io/region", description="Label with the region.")


class TopologyExtractor(EndpointListener):
    """Keeps host, rack, zone and region of endpoints."""

    type = "topology-extractor"
    stability = Stability.ALPHA

    def __init__(self, parameters: TopologyExtractorParameters, context: PluginContext) -> None:
        self._parameters = parameters
        self._topology = context.produces(TOPOLOGY)

    def endpoint_added(self, endpoint: Endpoint) -> None:
        """Take the labels."""
        labels = endpoint.labels
        names = self._parameters
        topology = Topology(
            hostname=labels.get(names.hostname) or endpoint.hostname,
            rack=labels.get(names.rack, ""),
            zone=labels.get(names.zone, ""),
            region=labels.get(names.region, ""),
        )
        if topology == _UNKNOWN:
            self._topology.remove_from(endpoint)
        else:
            self._topology.put_on(endpoint, topology)

    def endpoint_replaced(self, endpoint: Endpoint) -> None:
        """Take the labels again."""
        self.endpoint_added(endpoint)
