"""Parsers and the saturation detector, with what a document leaves out (scheduling §2.4, §2.5)."""

from __future__ import annotations

from epp.config.document import Document, Origin
from epp.config.findings import unknown_name
from epp.config.instances import Instance, Instances
from epp.config.references import added_as, resolved_as
from epp.config.unavailable import UNAVAILABLE, not_available
from epp.framework.flow_control import SaturationDetector
from epp.framework.request_handling import Parser
from epp.plugins.parsers.defaults import DEFAULT_PARSERS

DEFAULT_DETECTOR = "utilization-detector"


def complete_parsers(document: Document, instances: Instances, types: list[str]) -> list[Instance]:
    """The parsers of the document, or the default ones; a reference may be one of `types`."""
    if not document.parsers:
        added = [added_as(kind.type, Parser, instances) for kind in DEFAULT_PARSERS]
        return [parser for parser in added if parser is not None]
    parsers = []
    for reference in document.parsers:
        if not instances.knows(reference.name):
            if reference.name not in types:
                instances.findings.problem(reference.path, _no_parser(reference.name, types))
                continue
            instances.add(reference.name, Origin.DEFAULT)
        parser = resolved_as(reference, [Parser], instances)
        if parser is not None:
            parsers.append(parser)
    return parsers


def _no_parser(name: str, types: list[str]) -> str:
    if name in UNAVAILABLE:
        return not_available(name)
    return unknown_name(name, "plugin of this document and no type", types)


def complete_detector(document: Document, instances: Instances) -> Instance | None:
    """The saturation detector of the document, or the default one."""
    reference = document.saturation_detector
    if reference is None or (
        reference.name == DEFAULT_DETECTOR and not instances.knows(DEFAULT_DETECTOR)
    ):
        return added_as(DEFAULT_DETECTOR, SaturationDetector, instances)
    return resolved_as(reference, [SaturationDetector], instances)
