"""Which engine an endpoint runs: as its label says, else the default one or what its page shows."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from epp.framework.endpoint import Endpoint
from epp.plugins.engine_labels import engine_named_by
from epp.plugins.extractors.engine_mappings import PAGE_PREFIXES, EngineMapping

log = structlog.get_logger(__name__)

MAX_WARNINGS = 64


class EngineChoice:
    """Knows the engines; evaluated for every page, so that relabelling works live."""

    def __init__(self, label: str, mappings: Mapping[str, EngineMapping], default: str) -> None:
        self._label = label
        self._mappings = mappings
        self._default = mappings[default]
        self._warned: set[tuple[str, str]] = set()

    def labelled(self, endpoint: Endpoint) -> EngineMapping | None:
        """The engine that the endpoint's labels name, if it is known."""
        value = engine_named_by(endpoint, self._label)
        if not value:
            return None
        mapping = self._mappings.get(value)
        if mapping is None:
            self._warn_once(endpoint, "unknown engine label, taken for another engine", value)
        return mapping

    @property
    def default(self) -> EngineMapping:
        """The engine of endpoints without a label."""
        return self._default

    def shown(self, page: bytes, endpoint: Endpoint) -> EngineMapping | None:
        """The engine whose names are on a page that the default one's are not on."""
        for name, prefix in PAGE_PREFIXES.items():
            mapping = self._mappings.get(name)
            if mapping is None or mapping is self._default:
                continue
            if prefix in page or page.startswith(prefix[1:]):
                self._warn_once(endpoint, "engine told from its metrics; label the pod", name)
                return mapping
        return None

    def _warn_once(self, endpoint: Endpoint, event: str, engine: str) -> None:
        key = (endpoint.name, engine)
        if key in self._warned or len(self._warned) >= MAX_WARNINGS:
            return
        self._warned.add(key)
        log.warning(event, endpoint=endpoint.name, label=self._label, engine=engine)
