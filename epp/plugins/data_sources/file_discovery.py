"""Endpoints from a file (datalayer §7.3)."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, field_validator

from epp.framework.data_layer import EndpointDiscovery
from epp.framework.plugin import Parameters


class FileDiscoveryParameters(Parameters):
    """Which file."""

    path: Path = Field(description="YAML file with the endpoints.")
    watch_file: bool = Field(False, description="Whether changes of the file are followed.")

    @field_validator("path", mode="after")
    @classmethod
    def _is_named(cls, path: Path) -> Path:
        if path == Path():
            raise ValueError("path is empty; allowed: the path of a file")
        return path


class FileDiscovery(EndpointDiscovery):
    """Takes endpoints from a file instead of Kubernetes."""

    type = "file-discovery"

    def __init__(self, parameters: FileDiscoveryParameters) -> None:
        self.path = parameters.path
        self.watch_file = parameters.watch_file
