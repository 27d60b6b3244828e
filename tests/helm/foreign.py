"""Definitions of what the chart renders for gateways and Prometheus, as published by those."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

_FOLDER = Path(
    os.environ.get("EPP_HELM_DEFINITIONS_BIN") or Path.home() / ".cache/epp-helm-definitions"
)
_FILES = {
    "gateways.gateway.networking.k8s.io": "gateway.networking.k8s.io_gateways.yaml",
    "httproutes.gateway.networking.k8s.io": "gateway.networking.k8s.io_httproutes.yaml",
    "destinationrules.networking.istio.io": "customresourcedefinitions.gen.yaml",
    "servicemonitors.monitoring.coreos.com": "monitoring.coreos.com_servicemonitors.yaml",
}
# Google publishes none of its definitions.
_WITHOUT_DEFINITION = ("networking.gke.io/", "monitoring.googleapis.com/")


def foreign_definitions() -> list[dict[str, Any]]:
    """What an administrator of such a cluster has installed."""
    return [_definition(name, file) for name, file in _FILES.items()]


def is_defined(manifest: dict[str, Any]) -> bool:
    """Whether the API server of the tests can know its kind."""
    return not manifest["apiVersion"].startswith(_WITHOUT_DEFINITION)


def _definition(name: str, file: str) -> dict[str, Any]:
    text = (_FOLDER / file).read_text()
    (document,) = [each for each in text.split("\n---\n") if f"\n  name: {name}\n" in each]
    definition: dict[str, Any] = yaml.load(document, Loader=yaml.CSafeLoader)
    return definition
