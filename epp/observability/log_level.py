"""The level of the process's log while it runs: what was configured, until somebody changes it."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import structlog

from epp.observability.logging import LEVELS, LogLevel, apply_level

log = structlog.get_logger(__name__)


class LogLevelSwitch:
    """Changes the level of everything that `configure_logging` has set up."""

    __slots__ = ("configured", "in_force", "talkative", "tells_debug")

    def __init__(self, configured: LogLevel, talkative: Sequence[str] = ()) -> None:
        self.configured: LogLevel = configured
        self.in_force: LogLevel = configured
        self.tells_debug = _tells_debug(configured)
        """Whether debug lines are written; for those who would have to put them together."""
        self.talkative = talkative
        """Loggers that write from `info` on, whatever the level."""

    def use(self, level: LogLevel) -> None:
        """Log everything of at least `level` from now on, and say so if that is a change."""
        before = self.in_force
        if level == before:
            return
        # The line is to be seen whichever of the two shows less.
        severity = max(logging.WARNING, min(LEVELS[level], LEVELS[before]))
        more = level if LEVELS[level] < LEVELS[before] else before
        apply_level(more, self.talkative)
        log.log(severity, "log level changed", in_force=level, before=before)
        apply_level(level, self.talkative)
        self.in_force = level
        self.tells_debug = _tells_debug(level)

    def reset(self) -> None:
        """Go back to the configured level."""
        self.use(self.configured)


def _tells_debug(level: LogLevel) -> bool:
    return LEVELS[level] <= logging.DEBUG
