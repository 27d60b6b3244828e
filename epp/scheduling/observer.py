"""Who is told how the plugins of the scheduling cycle fare."""

from __future__ import annotations

from typing import Protocol


class PluginObserver(Protocol):
    """Counts calls of plugins; the process's metrics are one."""

    def plugin_duration(
        self, extension_point: str, plugin_type: str, plugin_name: str, seconds: float
    ) -> None:
        """One call of a plugin took `seconds`."""

    def plugin_error(self, extension_point: str, plugin_type: str, plugin_name: str) -> None:
        """One call of a plugin failed."""

    def plugin_switched_off(self, plugin_type: str, plugin_name: str) -> None:
        """A plugin took too long again and again and is not called any more."""


class Unobserved:
    """Counts nothing: for scheduling without a process around it."""

    def plugin_duration(
        self, extension_point: str, plugin_type: str, plugin_name: str, seconds: float
    ) -> None:
        """Nobody asks."""

    def plugin_error(self, extension_point: str, plugin_type: str, plugin_name: str) -> None:
        """Nobody asks."""

    def plugin_switched_off(self, plugin_type: str, plugin_name: str) -> None:
        """Nobody asks."""
