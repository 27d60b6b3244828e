"""Builds the instances of a document, each after those it refers to."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from epp.config.document import Origin, PluginEntry
from epp.config.findings import Findings, unknown_name
from epp.config.parameters import ParametersRefused, read_parameters
from epp.config.plugin_context import BuildContext, HeldMetrics
from epp.config.plugin_registry import PluginRegistry
from epp.framework.data import Input, Output
from epp.framework.errors import ConfigError
from epp.framework.plugin import Parameters, Plugin, Stability, construct
from epp.support.plugin_faults import PLUGIN_FAULTS


@dataclass(slots=True, kw_only=True, eq=False)
class Instance:
    """A plugin that is built, and what it declared."""

    entry: PluginEntry
    kind: type[Plugin]
    parameters: Parameters | None
    plugin: Plugin
    inputs: tuple[Input[Any], ...] = ()
    outputs: tuple[Output[Any], ...] = ()
    references: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def where(self) -> str:
        """Path of its entry, else its name."""
        return self.entry.path or self.entry.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What every plugin of an assembly is given."""

    registry: PluginRegistry
    metrics: HeldMetrics
    seed: int
    now: Callable[[], float]
    allow_experimental: bool
    allowed_with: str
    """What would allow experimental plugins, for who wants to."""


class _Refused(Exception):
    """An instance can't be built; the findings say why."""


class Instances:
    """Instances by name, built when they are first asked for."""

    def __init__(
        self,
        entries: tuple[PluginEntry, ...],
        surroundings: Surroundings,
        findings: Findings,
        reusable: Mapping[str, Instance],
    ) -> None:
        self.findings = findings
        self._around = surroundings
        self._reusable = reusable
        self._entries = {entry.name: entry for entry in entries}
        self._built: dict[str, Instance] = {}
        self._refused: set[str] = set()
        self._under_way: list[str] = []
        for entry in entries:
            self.get(entry.name)

    @property
    def all(self) -> list[Instance]:
        """Those that could be built, in the order of the document, what was added last."""
        return [self._built[name] for name in self._entries if name in self._built]

    @property
    def inputs(self) -> list[tuple[Instance, Input[Any]]]:
        """Everything that is read, with its reader."""
        return [(instance, wanted) for instance in self.all for wanted in instance.inputs]

    @property
    def is_complete(self) -> bool:
        """Whether all of them could be built."""
        return not self._refused

    @property
    def names(self) -> list[str]:
        """Names of all that are listed or added, whether or not they could be built."""
        return list(self._entries)

    def of_kind(self, kind: type[Plugin]) -> list[Instance]:
        """Those that implement a contract."""
        return [instance for instance in self.all if isinstance(instance.plugin, kind)]

    def knows(self, name: str) -> bool:
        """Whether there is an entry of that name."""
        return name in self._entries

    def knows_type(self, plugin_type: str) -> bool:
        """Whether there is a type of that name."""
        return plugin_type in self._around.registry.types()

    def get(self, name: str) -> Instance | None:
        """The instance `name`, built now if need be; None if it can't be, which is a finding."""
        try:
            return self._get(name)
        except _Refused:
            return None

    def add(self, plugin_type: str, origin: Origin) -> Instance | None:
        """The instance named like its type, made with default parameters if there is none."""
        entry = PluginEntry(name=plugin_type, type=plugin_type, origin=origin)
        self._entries.setdefault(plugin_type, entry)
        return self.get(plugin_type)

    def _get(self, name: str) -> Instance:
        if name in self._refused:
            raise _Refused
        built = self._built.get(name)
        if built is None:
            self._under_way.append(name)
            try:
                built = self._built[name] = self._make(self._entries[name])
            except (_Refused, ParametersRefused):
                self._refused.add(name)
                raise _Refused from None
            finally:
                self._under_way.pop()
        return built

    def _make(self, entry: PluginEntry) -> Instance:
        findings, where = self.findings, entry.path or entry.name
        if not entry.type:
            raise _Refused
        try:
            kind = self._around.registry.find(entry.type)
        except ConfigError as error:
            findings.problem(f"{entry.path}.type" if entry.path else "", str(error))
            raise _Refused from error
        self._check_stability(entry, kind)
        parameters = read_parameters(entry, kind, findings)
        reused = self._reused(entry, kind, parameters)
        if reused is not None:
            return reused
        context = self._context(entry)
        try:
            plugin = construct(kind, parameters, context)
        except _Refused:
            raise
        except ConfigError as error:
            findings.problem(f"{where}.parameters", str(error))
            raise _Refused from error
        except PLUGIN_FAULTS as error:  # a stranger's plugin may raise anything
            findings.problem(where, f"plugin {entry.name!r} can't be built: {error!r}")
            raise _Refused from error
        return Instance(
            entry=entry,
            kind=kind,
            parameters=parameters,
            plugin=plugin,
            inputs=tuple(context.inputs),
            outputs=tuple(context.outputs),
            references=tuple(context.references),
        )

    def _context(self, entry: PluginEntry) -> BuildContext:
        return BuildContext(
            name=entry.name,
            plugin_type=entry.type,
            rng=random.Random(f"{self._around.seed}/{entry.name}"),
            now=self._around.now,
            metrics=self._around.metrics,
            find=lambda name, kind, field: self._referred(entry, name, kind, field),
        )

    def _referred(self, entry: PluginEntry, name: str, kind: type[Any], field: str) -> Any:
        path = f"{entry.path or entry.name}.parameters.{field}"
        if name not in self._entries:
            others = [other for other in self._entries if other != entry.name]
            self.findings.problem(path, unknown_name(name, "plugin of this document", others))
            raise _Refused
        if name in self._under_way:
            circle = [*self._under_way[self._under_way.index(name) :], name]
            self.findings.problem(path, f"plugins refer to one another: {' → '.join(circle)}")
            raise _Refused
        plugin = self._get(name).plugin
        if not isinstance(plugin, kind):
            self.findings.problem(path, f"plugin {name!r} ({plugin.type}) is no {kind.__name__}")
            raise _Refused
        return plugin

    def _check_stability(self, entry: PluginEntry, kind: type[Plugin]) -> None:
        where = entry.path or entry.name
        if kind.stability is Stability.ALPHA and not self._around.allow_experimental:
            self.findings.problem(
                where,
                f"plugin {entry.name!r} (type {entry.type!r}) has stability Alpha;"
                f" allow it with {self._around.allowed_with}",
            )
        if kind.stability is Stability.DEPRECATED:
            instead = f"; use {kind.replaced_by}" if kind.replaced_by else ""
            self.findings.warning(where, f"plugin type {entry.type!r} is deprecated{instead}")

    def _reused(
        self, entry: PluginEntry, kind: type[Plugin], parameters: Parameters | None
    ) -> Instance | None:
        """The instance of the configuration before, if it would be built the same."""
        old = self._reusable.get(entry.name)
        if old is None or old.kind is not kind or old.parameters != parameters:
            return None
        for name in old.references:
            before = self._reusable.get(name)
            if before is None or name not in self._entries:
                return None
            if self._get(name).plugin is not before.plugin:
                return None
        return Instance(
            entry=entry,
            kind=kind,
            parameters=parameters,
            plugin=old.plugin,
            inputs=old.inputs,
            outputs=old.outputs,
            references=old.references,
        )
