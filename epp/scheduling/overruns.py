"""Plugins that hold up everybody are switched off (decision 18)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from epp.framework.plugin import Plugin
    from epp.framework.request import InferenceRequest

log = structlog.get_logger(__name__)

MOST_IN_A_ROW = 5
"""Calls over the budget, one after another, after which a plugin is not called any more."""


class Overruns:
    """Counts how often synchronous plugins took longer than they may: they can't be interrupted."""

    def __init__(self, on_switched_off: Callable[[str, str], None]) -> None:
        self._on_switched_off = on_switched_off
        """Called with type and name of a plugin."""
        self._in_a_row: dict[Plugin, int] = {}
        self._off: set[Plugin] = set()

    def is_off(self, plugin: Plugin) -> bool:
        """Whether `plugin` is not to be called any more."""
        return plugin in self._off

    def took(
        self, plugin: Plugin, seconds: float, budget_seconds: float, request: InferenceRequest
    ) -> None:
        """Tell how long a call of `plugin` for `request` took."""
        if seconds <= budget_seconds:
            if self._in_a_row:
                self._in_a_row.pop(plugin, None)
            return
        count = self._in_a_row[plugin] = self._in_a_row.get(plugin, 0) + 1
        if count == 1:
            log.warning(
                "plugin holds up all requests",
                plugin=plugin.name,
                type=plugin.type,
                seconds=round(seconds, 3),
                budget_seconds=budget_seconds,
                request_id=request.id,
            )
        if count >= MOST_IN_A_ROW:
            del self._in_a_row[plugin]
            self._off.add(plugin)
            self._on_switched_off(plugin.type, plugin.name)
            log.error(
                "plugin switched off: its calls take too long",
                plugin=plugin.name,
                calls=count,
                request_id=request.id,
            )
