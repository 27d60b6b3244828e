"""Data sources, their extractors and discovery, with the default source (scheduling §2.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from epp.config.document import Document, Origin, Reference, SourceEntry
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A data source and the extractors of its answers."""

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
    kinds = [
        extractor for kind, extractor in _EXTRACTORS.items() if isinstance(source.plugin, kind)
    ]
    extractors = [resolved_as(extractor, kinds, instances) for extractor in entry.extractors]
    usual = source.plugin.default_extractor if isinstance(source.plugin, DataSource) else ""
    if not entry.extractors and usual:
        instances.findings.warning(
            entry.source.path, f"{source.name!r} has no extractors; the usual one is {usual}"
        )
    return Source(
        instance=source,
        extractors=[extractor for extractor in extractors if extractor is not None],
    )


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
