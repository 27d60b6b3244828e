"""Which extractors hang on which source (datalayer §1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from epp.framework.data_layer import (
    DataSource,
    EndpointListener,
    Extractor,
    KubernetesExtractor,
    KubernetesSource,
    PollingSource,
)
from epp.framework.plugin import Plugin

Attachment = tuple[DataSource, Sequence[Plugin]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """Sources by kind, each with its extractors."""

    polled: tuple[tuple[PollingSource, tuple[Extractor, ...]], ...]
    """Those without an extractor are left out: nobody would read the pages."""
    kubernetes: tuple[tuple[KubernetesSource, tuple[KubernetesExtractor, ...]], ...]
    listeners: tuple[EndpointListener, ...]
    """Of endpoint sources, and those that need none; each once."""


def wire(sources: Sequence[Attachment], listeners: Iterable[EndpointListener] = ()) -> Wiring:
    """Sort `sources`, which a configuration has found to fit together, by kind."""
    attached = [each for source, extractors in sources for each in extractors]
    every = [each for each in (*attached, *listeners) if isinstance(each, EndpointListener)]
    return Wiring(
        polled=tuple(
            (source, tuple(each for each in extractors if isinstance(each, Extractor)))
            for source, extractors in sources
            if isinstance(source, PollingSource) and extractors
        ),
        kubernetes=tuple(
            (source, tuple(each for each in extractors if isinstance(each, KubernetesExtractor)))
            for source, extractors in sources
            if isinstance(source, KubernetesSource)
        ),
        listeners=tuple({id(each): each for each in every}.values()),
    )
