"""A document that has been read: what it says, and where it says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Origin(StrEnum):
    """Why an instance is there."""

    LISTED = ""
    DEFAULT = "default"
    PRODUCER = "needed for its data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The name of an instance, and the path of the field that names it."""

    name: str
    path: str
    weight: float | None = None
    """Of a scorer; None: not given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginEntry:
    """An instance that is to be built."""

    name: str
    type: str
    """Empty if it is missing, which is a problem of the document."""
    path: str = ""
    parameters: Mapping[str, Any] | None = None
    origin: Origin = Origin.LISTED


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileEntry:
    """A scheduling profile."""

    name: str
    path: str
    plugins: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEntry:
    """A data source and its extractors."""

    source: Reference
    extractors: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """An EndpointPickerConfig with the mistakes found so far; `assemble` refuses it if any."""

    what: str = "the configuration"
    """What to call it in messages."""
    plugins: tuple[PluginEntry, ...] = ()
    profiles: tuple[ProfileEntry, ...] = ()
    sources: tuple[SourceEntry, ...] = ()
    inject_default_source: bool = True
    discovery: Reference | None = None
    parsers: tuple[Reference, ...] = ()
    saturation_detector: Reference | None = None
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
