"""Plugins as they are called: measured, and their failures counted and told."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

import structlog

from epp.framework.plugin import Plugin
from epp.support.fault_log import FaultLog

if TYPE_CHECKING:
    from epp.scheduling.observer import PluginObserver

log = structlog.get_logger(__name__)

P_co = TypeVar("P_co", bound=Plugin, covariant=True)
P = TypeVar("P", bound=Plugin)


@dataclass(frozen=True, slots=True, eq=False)
class Step(Generic[P_co]):
    """A plugin at one extension point.

    What every call of it needs is looked up once: a decision is made of few microseconds.
    """

    plugin: P_co
    name: str
    took: Callable[[float], None]
    """To be told the seconds that a call took."""
    failed: Callable[[BaseException], None]
    """To be told what a call raised."""


class Steps:
    """Makes steps, and tells an observer and the log how they fare."""

    def __init__(self, observer: PluginObserver, now: Callable[[], float] = time.monotonic) -> None:
        self._observer = observer
        self._faults = FaultLog("plugin failed", log.warning, now)

    def of(self, extension_point: str, plugin: P) -> Step[P]:
        """The step at which `plugin` is called."""
        labels = (extension_point, plugin.type, plugin.name)
        timer = self._observer.plugin_timer(*labels)
        return Step(plugin, plugin.name, timer, partial(self._failed, labels))

    def _failed(self, labels: tuple[str, str, str], error: BaseException) -> None:
        self._observer.plugin_error(*labels)
        point, plugin_type, name = labels
        self._faults.tell(name, error, extension_point=point, plugin=name, type=plugin_type)
