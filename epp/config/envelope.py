"""What a document says beyond its shape: versions, gates, names that are required and unique."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from epp.config.document import Document, PluginEntry, ProfileEntry, Reference, SourceEntry
from epp.config.feature_gates import FLOW_CONTROL, read_feature_gates
from epp.config.findings import Findings
from epp.config.schema import (
    API_VERSION,
    KIND,
    OLDER_API_VERSION,
    DataLayerSpec,
    EndpointPickerConfig,
    FlowControlSpec,
    PluginReference,
    Section,
)
from epp.datastore.manifest_errors import not_allowed

S = TypeVar("S", bound=Section)


def read_envelope(
    written: EndpointPickerConfig, emptied: set[str], findings: Findings, what: str
) -> Document:
    """`written` with a path for everything; `emptied` are paths that were complained about."""
    reader = _Reader(emptied, findings)
    reader.check_version(written)
    gates = read_feature_gates(written.feature_gates, findings)
    reader.check_flow_control(written.flow_control, is_on=gates[FLOW_CONTROL])
    reader.tell_ignored(written.data_layer)
    layer = written.data_layer
    return Document(
        what=what,
        plugins=tuple(reader.plugins(written)),
        profiles=tuple(reader.profiles(written)),
        sources=tuple(reader.sources(layer)),
        inject_default_source=layer.inject_defaults,
        discovery=reader.reference(layer.discovery, "dataLayer.discovery"),
        parsers=reader.parsers(written),
        saturation_detector=reader.saturation_detector(written),
        feature_gates=gates,
        # Last: the lines above find more of them.
        problems=tuple(findings.problems),
        warnings=tuple(findings.warnings),
    )


class _Reader:
    def __init__(self, emptied: set[str], findings: Findings) -> None:
        self._emptied = emptied
        self._findings = findings

    def check_version(self, written: EndpointPickerConfig) -> None:
        allowed = f"{API_VERSION}, or {OLDER_API_VERSION}, which is deprecated"
        if written.api_version == OLDER_API_VERSION:
            self._findings.warning(
                "apiVersion", f"{OLDER_API_VERSION} is deprecated; use {API_VERSION}"
            )
        elif written.api_version != API_VERSION:
            self._findings.problem("", not_allowed("apiVersion", written.api_version, allowed))
        if written.kind != KIND:
            self._findings.problem("", not_allowed("kind", written.kind, KIND))

    def check_flow_control(self, written: FlowControlSpec | None, *, is_on: bool) -> None:
        if written is None:
            return
        seen: dict[int | None, str] = {}
        for index, band in enumerate(written.priority_bands):
            path = f"flowControl.priorityBands[{index}].priority"
            if band.priority in seen:
                self._findings.problem(path, f"the priority of {seen[band.priority]} already")
            seen.setdefault(band.priority, f"priorityBands[{index}]")
        if not is_on:
            for name in _given(written, besides=("saturation_detector", "enable_eviction")):
                self._findings.warning(
                    f"flowControl.{name}", f"without effect: feature gate {FLOW_CONTROL} is off"
                )

    def tell_ignored(self, written: DataLayerSpec) -> None:
        effective = ("inject_defaults", "sources", "discovery")
        for name in _given(written, besides=effective):
            self._findings.warning(f"dataLayer.{name}", "without effect in this version")

    def plugins(self, written: EndpointPickerConfig) -> Iterator[PluginEntry]:
        paths: dict[str, str] = {}
        for path, spec in self._entries(written.plugins, "plugins"):
            name = spec.name or spec.type
            if not spec.type:
                self._findings.problem(f"{path}.type", "required")
            if not name:
                continue
            if name in paths:
                self._findings.problem(
                    path, f"the name {name!r} is that of {paths[name]}; give it a `name` of its own"
                )
            else:
                paths[name] = path
                yield PluginEntry(name=name, type=spec.type, path=path, parameters=spec.parameters)

    def profiles(self, written: EndpointPickerConfig) -> Iterator[ProfileEntry]:
        paths: dict[str, str] = {}
        for path, spec in self._entries(written.scheduling_profiles, "schedulingProfiles"):
            if not spec.name:
                self._findings.problem(f"{path}.name", "required")
            elif spec.name in paths:
                self._findings.problem(
                    f"{path}.name", f"the name {spec.name!r} is that of {paths[spec.name]}"
                )
            paths.setdefault(spec.name, path)
            yield ProfileEntry(
                name=spec.name,
                path=path,
                plugins=self._references(spec.plugins, f"{path}.plugins"),
            )

    def sources(self, written: DataLayerSpec) -> Iterator[SourceEntry]:
        for path, spec in self._entries(written.sources, "dataLayer.sources"):
            source = self.reference(spec, path)
            extractors = self._references(spec.extractors, f"{path}.extractors")
            if source is not None:
                yield SourceEntry(source=source, extractors=extractors)

    def parsers(self, written: EndpointPickerConfig) -> tuple[Reference, ...]:
        listed = self._references(written.request_handler.parsers, "requestHandler.parsers")
        alone = self.reference(written.parser, "parser")
        if alone is not None:
            self._findings.warning("parser", "deprecated; use requestHandler.parsers")
        return listed or ((alone,) if alone else ())

    def saturation_detector(self, written: EndpointPickerConfig) -> Reference | None:
        nested = written.flow_control.saturation_detector if written.flow_control else None
        if written.saturation_detector is not None:
            self._findings.warning(
                "saturationDetector", "deprecated; use flowControl.saturationDetector"
            )
        # Both may be there without a name, which means the default one.
        if nested is not None and nested.plugin_ref:
            return self.reference(nested, "flowControl.saturationDetector")
        if written.saturation_detector is not None and written.saturation_detector.plugin_ref:
            return self.reference(written.saturation_detector, "saturationDetector")
        return None

    def reference(self, spec: PluginReference | None, path: str) -> Reference | None:
        if spec is None or path in self._emptied:
            return None
        if not spec.plugin_ref:
            self._findings.problem(f"{path}.pluginRef", "required")
            return None
        return Reference(
            name=spec.plugin_ref,
            path=f"{path}.pluginRef",
            weight=getattr(spec, "weight", None),
        )

    def _references(self, specs: Sequence[PluginReference], path: str) -> tuple[Reference, ...]:
        found = [self.reference(spec, f"{path}[{index}]") for index, spec in enumerate(specs)]
        return tuple(reference for reference in found if reference is not None)

    def _entries(self, specs: Sequence[S], path: str) -> Iterator[tuple[str, S]]:
        for index, spec in enumerate(specs):
            if f"{path}[{index}]" not in self._emptied:
                yield f"{path}[{index}]", spec


def _given(section: Section, *, besides: Iterable[str]) -> list[str]:
    """Names of the fields that are written, as they are written."""
    fields = type(section).model_fields
    return [
        str(fields[name].alias)
        for name in fields
        if name in section.model_fields_set and name not in besides
    ]
