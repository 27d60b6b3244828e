"""The effective document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from epp.config.data_layer_section import Source
from epp.config.instances import Instance
from epp.config.scheduling import Scheduling
from epp.config.wiring import Link


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """What a document means: what it leaves out filled in, names found, data wired."""

    instances: Sequence[Instance]
    """In the order of the document, what was added last."""
    scheduling: Scheduling
    parsers: Sequence[Instance]
    detector: Instance | None
    sources: Sequence[Source]
    discovery: Instance | None
    links: Sequence[Link]
    order: Sequence[str]
    """Names of all instances, each after those it reads from."""
    feature_gates: Mapping[str, bool]
