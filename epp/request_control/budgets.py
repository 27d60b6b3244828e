"""Budgets of plugins that wait."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from epp.support.plugin_faults import StillRunning, finish_within

if TYPE_CHECKING:
    from epp.framework.plugin import Plugin
    from epp.framework.request import InferenceRequest
    from epp.scheduling.overruns import Overruns


async def finish_in_budget(
    plugin: Plugin,
    pending: Awaitable[None],
    budget_seconds: float,
    overruns: Overruns,
    request: InferenceRequest,
) -> None:
    """Wait for a call of a plugin; what goes on although it was cancelled counts as an overrun."""
    try:
        await finish_within(pending, budget_seconds)
    except StillRunning as error:
        # Each call would leave one more task behind.
        if not overruns.is_off(plugin):
            overruns.took(plugin, error.seconds, budget_seconds, request)
        raise
    overruns.took(plugin, 0.0, budget_seconds, request)
