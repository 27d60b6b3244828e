"""Which engine an endpoint runs, as the labels of its pod say (datalayer §4.1)."""

from __future__ import annotations

from epp.framework.endpoint import Endpoint

ENGINE_LABEL = "llm-d.ai/engine-type"
LEGACY_ENGINE_LABEL = "inference.networking.k8s.io/engine-type"


def engine_named_by(endpoint: Endpoint, label: str) -> str:
    """The engine by `label`, else by the label's former name; empty: not said."""
    labels = endpoint.labels
    return labels.get(label) or labels.get(LEGACY_ENGINE_LABEL) or ""
