"""Plugin types by name: bundled, of other distributions by entry point, or given as classes."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points

from epp.config.findings import unknown_name
from epp.config.unavailable import UNAVAILABLE, not_available
from epp.framework.errors import ConfigError
from epp.framework.plugin import Plugin, parameters_of
from epp.plugins.catalogue import BUNDLED
from epp.support.plugin_faults import PLUGIN_FAULTS

GROUP = "epp.plugins"
_PACKAGE = "epp.plugins"
_OURS = "this distribution"
_CALLER = "the caller"


class PluginRegistry:
    """Finds the class of a type; its module is imported when the type is first named."""

    def __init__(
        self,
        bundled: Mapping[str, str] = BUNDLED,
        strangers: Iterable[EntryPoint] = (),
        given: Mapping[str, type[Plugin]] | None = None,
    ) -> None:
        self._bundled = bundled
        self._given = given or {}
        self._strangers: dict[str, list[EntryPoint]] = {}
        for point in strangers:
            self._strangers.setdefault(point.name, []).append(point)
        self._found: dict[str, type[Plugin]] = {}

    @classmethod
    def installed(cls, given: Mapping[str, type[Plugin]] | None = None) -> PluginRegistry:
        """The bundled types, those of every installed distribution, and the `given` classes."""
        return cls(strangers=entry_points(group=GROUP), given=given)

    def types(self) -> list[str]:
        """Every type there is, in alphabetical order, whether or not it can be imported."""
        return sorted({*self._bundled, *self._strangers, *self._given})

    def is_bundled(self, plugin_type: str) -> bool:
        """Whether a type belongs to this distribution."""
        return plugin_type in self._bundled

    def find(self, plugin_type: str) -> type[Plugin]:
        """The class of a type; raises `ConfigError` when there is none that can be used."""
        found = self._found.get(plugin_type)
        if found is None:
            found = self._found[plugin_type] = self._load(plugin_type)
        return found

    def _load(self, plugin_type: str) -> type[Plugin]:
        points = self._strangers.get(plugin_type, [])
        is_bundled, is_given = plugin_type in self._bundled, plugin_type in self._given
        offering = [_OURS] * is_bundled + [_CALLER] * is_given + [*map(_distribution, points)]
        if len(offering) > 1:
            raise ConfigError(
                f"plugin type {plugin_type!r} is offered by {' and by '.join(offering)};"
                " leave out all but one"
            )
        if is_given:
            return _checked(self._given[plugin_type], f"plugin type {plugin_type!r}")
        if is_bundled:
            point = EntryPoint(plugin_type, f"{_PACKAGE}.{self._bundled[plugin_type]}", GROUP)
            return _imported(point, f"plugin type {plugin_type!r}")
        if points:
            return _imported(
                points[0],
                f"plugin type {plugin_type!r} of {_distribution(points[0])}"
                f" (entry point {plugin_type} = {points[0].value})",
            )
        if plugin_type in UNAVAILABLE:
            raise ConfigError(not_available(plugin_type))
        raise ConfigError(
            unknown_name(
                plugin_type,
                "plugin type",
                self.types(),
                otherwise="; `epp plugins list` prints them all",
            )
        )


def _imported(point: EntryPoint, what: str) -> type[Plugin]:
    try:
        found = point.load()
    except PLUGIN_FAULTS as error:  # a stranger's module may raise anything while it is imported
        raise ConfigError(f"{what} can't be imported: {error!r}") from error
    return _checked(found, what)


def _checked(found: object, what: str) -> type[Plugin]:
    """`found` if it is a class that can be configured."""
    if not (isinstance(found, type) and issubclass(found, Plugin)):
        raise ConfigError(f"{what} is no class derived from epp.framework.Plugin")
    if inspect.isabstract(found):
        missing = ", ".join(sorted(found.__abstractmethods__))
        raise ConfigError(f"{what} lacks the methods {missing}")
    try:
        parameters_of(found)
    except Exception as error:  # annotations are evaluated
        raise ConfigError(
            f"{what}: the annotations of its __init__ can't be read: {error!r}"
        ) from error
    return found


def _distribution(point: EntryPoint) -> str:
    return f"distribution {point.dist.name!r}" if point.dist else "an unknown distribution"
