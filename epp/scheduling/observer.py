"""Who is told how the plugins of the scheduling cycle fare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class PluginObserver(Protocol):
    """Counts calls of plugins; the process's metrics are one."""

    def plugin_timer(
        self, extension_point: str, plugin_type: str, plugin_name: str
    ) -> Callable[[float], None]:
        """What is told the seconds of each call of a plugin; asked for once."""

    def plugin_error(self, extension_point: str, plugin_type: str, plugin_name: str) -> None:
        """One call of a plugin failed."""

    def plugin_switched_off(self, plugin_type: str, plugin_name: str) -> None:
        """A plugin took too long again and again and is not called any more."""


class Unobserved:
    """Counts nothing: for scheduling without a process around it."""

    def plugin_timer(
        self, extension_point: str, plugin_type: str, plugin_name: str
    ) -> Callable[[float], None]:
        """Nobody asks."""
        return lambda _: None

    def plugin_error(self, extension_point: str, plugin_type: str, plugin_name: str) -> None:
        """Nobody asks."""

    def plugin_switched_off(self, plugin_type: str, plugin_name: str) -> None:
        """Nobody asks."""
