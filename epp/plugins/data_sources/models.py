"""Lists of served models (datalayer §6.1)."""

from __future__ import annotations

from pydantic import Field

from epp.framework.data_layer import MODEL_LIST, HttpTarget, PollingSource
from epp.framework.endpoint import Endpoint
from epp.framework.plugin import PluginContext
from epp.plugins.data_sources.http_parameters import TlsSourceParameters, UrlPath


class ModelsDataSourceParameters(TlsSourceParameters):
    """Where model servers list their models."""

    path: UrlPath = Field("/v1/models", description="Path of the list.")


class ModelsDataSource(PollingSource):
    """Polls the models that every endpoint serves."""

    type = "models-data-source"
    default_extractor = "models-data-extractor"
    payload = MODEL_LIST

    def __init__(self, parameters: ModelsDataSourceParameters, context: PluginContext) -> None:
        parameters.warn_of_ignored(context.name)
        self.interval_seconds = parameters.interval_seconds
        self._parameters = parameters

    def target(self, endpoint: Endpoint) -> HttpTarget:
        """The list at the endpoint's own port."""
        return self._parameters.target(
            host=endpoint.ip, port=endpoint.port, path=self._parameters.path
        )
