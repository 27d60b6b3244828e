"""Endpoints from a file (datalayer §7.3)."""

from __future__ import annotations

from pydantic import Field

from epp.framework.data_layer import EndpointDiscovery
from epp.framework.plugin import Parameters
from epp.plugins.data_sources.file_paths import FilePath


class FileDiscoveryParameters(Parameters):
    """Which file."""

    path: FilePath = Field(description="YAML file with the endpoints.")
    watch_file: bool = Field(False, description="Whether changes of the file are followed.")


class FileDiscovery(EndpointDiscovery):
    """Takes endpoints from a file instead of Kubernetes."""

    type = "file-discovery"

    def __init__(self, parameters: FileDiscoveryParameters) -> None:
        self.path = parameters.path
        self.watch_file = parameters.watch_file
