"""Which extractors hang on which source, checked before anything starts (datalayer §1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from epp.framework.data_layer import (
    DataSource,
    EndpointListener,
    EndpointSource,
    Extractor,
    KubernetesExtractor,
    KubernetesSource,
    PollingSource,
)
from epp.framework.errors import ConfigError
from epp.framework.plugin import Plugin

Attachment = tuple[DataSource, Sequence[Plugin]]

_EXTRACTOR_OF: dict[type[DataSource], type[Plugin]] = {
    PollingSource: Extractor,
    KubernetesSource: KubernetesExtractor,
    EndpointSource: EndpointListener,
}
_SENTENCE = {
    PollingSource: "asks every endpoint",
    KubernetesSource: "follows objects of Kubernetes",
    EndpointSource: "follows endpoints",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """Sources by kind, each with its extractors."""

    polled: tuple[tuple[PollingSource, tuple[Extractor, ...]], ...]
    """Those without an extractor are left out: nobody would read the pages."""
    kubernetes: tuple[tuple[KubernetesSource, tuple[KubernetesExtractor, ...]], ...]
    listeners: tuple[EndpointListener, ...]
    """Of endpoint sources, and those that need none; each once."""


def wire(sources: Sequence[Attachment], listeners: Iterable[EndpointListener] = ()) -> Wiring:
    """Sort `sources` by kind. Raises `ConfigError` that names every mistake."""
    problems = [*_problems(sources)]
    if problems:
        raise ConfigError("; ".join(problems))
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


def _problems(sources: Sequence[Attachment]) -> Iterator[str]:
    for source, extractors in sources:
        where = f"dataLayer.sources: {source.name!r}"
        if not isinstance(source, DataSource):
            yield f"{where} is no data source"
            continue
        kinds = [kind for kind in _EXTRACTOR_OF if isinstance(source, kind)]
        if len(kinds) != 1:
            meant = ", ".join(sorted(kind.__name__ for kind in _EXTRACTOR_OF))
            yield f"{where} is {len(kinds)} kinds of source; it must be exactly one of {meant}"
            continue
        for extractor in extractors:
            if not isinstance(extractor, wanted := _EXTRACTOR_OF[kinds[0]]):
                yield (
                    f"{where} {_SENTENCE[kinds[0]]}, so extractor {extractor.name!r} must be a"
                    f" {wanted.__name__}"
                )
        for type_ in _repeated(each.type for each in extractors):
            yield f"{where} has more than one extractor of type {type_!r}"
    for name in _repeated(each.name for each, _ in sources if isinstance(each, PollingSource)):
        yield f"dataLayer.sources: {name!r} is there more than once; list its extractors together"
    for kind in _repeated(
        f"{each.group}/{each.version} {each.kind}"
        for each, _ in sources
        if isinstance(each, KubernetesSource)
    ):
        yield f"dataLayer.sources: more than one source follows {kind.lstrip('/')!r}"


def _repeated(values: Iterable[str]) -> list[str]:
    return [value for value, count in Counter(values).items() if count > 1]
