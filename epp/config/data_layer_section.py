"""Data sources, their extractors and discovery, with the default source (scheduling §2.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from epp.config.document import Document, Origin, Reference, SourceEntry
from epp.config.findings import Findings
from epp.config.instances import Instance, Instances
from epp.config.references import resolved_as
from epp.framework.data_layer import (
    DataSource,
    EndpointDiscovery,
    EndpointListener,
    EndpointSource,
    Extractor,
    KubernetesExtractor,
    KubernetesSource,
    PollingSource,
)
from epp.framework.data_types import CORE_METRICS_EXTRACTOR
from epp.framework.plugin import Plugin

METRICS_DATA_SOURCE = "metrics-data-source"

_EXTRACTORS: Mapping[type[DataSource], type[Plugin]] = {
    PollingSource: Extractor,
    KubernetesSource: KubernetesExtractor,
    EndpointSource: EndpointListener,
}
"""Kinds of sources, and what may be attached to each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A data source and the extractors of its answers."""

    path: str
    instance: Instance
    extractors: Sequence[Instance]


def complete_sources(document: Document, instances: Instances) -> list[Source]:
    """The sources of the document, and the default one unless it is refused or there.

    As in the reference the default source is told by its name: one of another name is scraped
    beside it.
    """
    entries = list(document.sources)
    if document.inject_default_source and all(
        entry.source.name != METRICS_DATA_SOURCE for entry in entries
    ):
        _warn_of_second_scrape(entries, instances)
        instances.add(METRICS_DATA_SOURCE, Origin.DEFAULT)
        instances.add(CORE_METRICS_EXTRACTOR, Origin.DEFAULT)
        entries.append(_DEFAULT_SOURCE)
    found = [_source(entry, instances) for entry in entries]
    sources = [source for source in found if source is not None]
    _check_that_they_differ(sources, instances.findings)
    _warn_of_unattached(sources, instances)
    return sources


def complete_discovery(document: Document, instances: Instances) -> Instance | None:
    """Where endpoints come from; None: not said."""
    if document.discovery is None:
        return None
    return resolved_as(document.discovery, [EndpointDiscovery], instances)


_DEFAULT_SOURCE = SourceEntry(
    source=Reference(name=METRICS_DATA_SOURCE, path="dataLayer.sources"),
    extractors=(Reference(name=CORE_METRICS_EXTRACTOR, path="dataLayer.sources"),),
)


def _source(entry: SourceEntry, instances: Instances) -> Source | None:
    source = resolved_as(entry.source, [DataSource], instances)
    if source is None:
        return None
    kinds = [kind for kind in _EXTRACTORS if isinstance(source.plugin, kind)]
    if len(kinds) != 1:
        allowed = ", ".join(sorted(kind.__name__ for kind in _EXTRACTORS))
        instances.findings.problem(
            entry.source.path, f"{source.name!r} is {len(kinds)} kinds of source; one of {allowed}"
        )
        return None
    usual = source.plugin.default_extractor if isinstance(source.plugin, DataSource) else ""
    if not entry.extractors and usual:
        instances.findings.warning(
            entry.source.path, f"{source.name!r} has no extractors; the usual one is {usual}"
        )
    return Source(
        path=entry.source.path,
        instance=source,
        extractors=_extractors(entry, source, _EXTRACTORS[kinds[0]], instances),
    )


def _extractors(
    entry: SourceEntry, source: Instance, kind: type[Plugin], instances: Instances
) -> list[Instance]:
    by_type: dict[str, Instance] = {}
    for reference in entry.extractors:
        extractor = resolved_as(reference, [kind], instances)
        if extractor is None:
            continue
        _check_payload(source, extractor, reference.path, instances.findings)
        extractor_type = extractor.entry.type
        if extractor_type in by_type:
            instances.findings.problem(
                reference.path,
                f"{entry.source.name!r} has more than one extractor of type {extractor_type!r}",
            )
        by_type[extractor_type] = extractor
    return list(by_type.values())


def _check_payload(source: Instance, extractor: Instance, path: str, findings: Findings) -> None:
    polled, reader = source.plugin, extractor.plugin
    if not isinstance(polled, PollingSource) or not isinstance(reader, Extractor):
        return
    brought, read = polled.payload, reader.payload
    if brought and read and brought != read:
        findings.problem(path, f"{extractor.name!r} reads {read}; {source.name!r} brings {brought}")


def _check_that_they_differ(sources: Sequence[Source], findings: Findings) -> None:
    polled: set[str] = set()
    followed: set[str] = set()
    for source in sources:
        plugin, name = source.instance.plugin, source.instance.name
        if isinstance(plugin, PollingSource):
            if name in polled:
                findings.problem(
                    source.path, f"{name!r} is there more than once; list its extractors together"
                )
            polled.add(name)
        elif isinstance(plugin, KubernetesSource):
            kind = f"{plugin.group}/{plugin.version} {plugin.kind}".lstrip("/")
            if kind in followed:
                findings.problem(source.path, f"more than one source follows {kind!r}")
            followed.add(kind)


def _warn_of_second_scrape(entries: Sequence[SourceEntry], instances: Instances) -> None:
    for entry in entries:
        source = instances.get(entry.source.name) if instances.knows(entry.source.name) else None
        if source is not None and source.entry.type == METRICS_DATA_SOURCE:
            instances.findings.warning(
                entry.source.path,
                f"endpoints are scraped twice, by {source.name!r} and by the default"
                f" {METRICS_DATA_SOURCE}; call it {METRICS_DATA_SOURCE} or set"
                " dataLayer.injectDefaults to false",
            )


def _warn_of_unattached(sources: Sequence[Source], instances: Instances) -> None:
    attached = {source.instance.name for source in sources}
    attached |= {extractor.name for source in sources for extractor in source.extractors}
    for instance in instances.all:
        is_part = isinstance(instance.plugin, (DataSource, Extractor, KubernetesExtractor))
        if is_part and instance.name not in attached:
            instances.findings.warning(
                instance.where, f"without effect: {instance.name!r} is not in dataLayer.sources"
            )
