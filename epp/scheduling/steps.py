"""Plugins as they are called: measured, and their failures counted and told."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

import structlog

from epp.framework.plugin import Plugin
from epp.framework.trail import StepName
from epp.support.fault_log import FaultLog

if TYPE_CHECKING:
    from epp.framework.request import InferenceRequest
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
    label: StepName
    took: Callable[[float], None]
    """To be told the seconds that a call took."""
    failed: Callable[[BaseException, InferenceRequest], None]
    """To be told what a call for a request raised."""

    def ended(self, request: InferenceRequest, started: float, ended: float) -> float:
        """A call on the way to a decision is over, well or not; gives its seconds."""
        seconds = ended - started
        self.took(seconds)
        trail = request.trail
        if trail is not None:
            trail.calls.extend((self.label, started, seconds))
        return seconds


class Steps:
    """Makes steps, and tells an observer and the log how they fare."""

    def __init__(
        self,
        observer: PluginObserver,
        now: Callable[[], float] = time.monotonic,
        *,
        profile: str = "",
    ) -> None:
        self._observer = observer
        self._profile = profile
        self._faults = FaultLog("plugin failed", log.warning, now)

    def of(self, extension_point: str, plugin: P) -> Step[P]:
        """The step at which `plugin` is called."""
        labels = (extension_point, plugin.type, plugin.name)
        return Step(
            plugin,
            plugin.name,
            StepName(extension_point, plugin.name, self._profile),
            self._observer.plugin_timer(*labels),
            partial(self._failed, labels),
        )

    def _failed(
        self, labels: tuple[str, str, str], error: BaseException, request: InferenceRequest
    ) -> None:
        self._observer.plugin_error(*labels)
        if request.trail is not None:
            request.trail.fails()
        point, plugin_type, name = labels
        self._faults.tell(
            name,
            error,
            extension_point=point,
            plugin=name,
            type=plugin_type,
            request_id=request.id,
        )
