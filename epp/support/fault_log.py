"""Log lines on faults of plugins: enough to mend them, few, and without a word of a request."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from epp.support.line_pace import LinePace
from epp.support.plugin_faults import PluginFault, StillRunning
from epp.support.wordless import kind_of, wordless_traceback

MOST_KINDS = 16
"""Of faults of one plugin that are told with their tracebacks."""
MOST_SUBJECTS = 1024
_OWN_FAULTS = (PluginFault, StillRunning)
"""Their messages are made here, and quote no request."""


class Report(Protocol):
    """A method of a logger."""

    def __call__(self, event: str, /, **values: object) -> object:
        """Write a line."""


class _Told:
    __slots__ = ("kinds", "pace")

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.pace = LinePace()


class FaultLog:
    """The first fault of each kind with its traceback, then a line a minute for each subject.

    What an exception says may quote a prompt, so that it is told at no level.
    """

    def __init__(
        self, event: str, report: Report, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._event = event
        self._report = report
        self._now = now
        self._told: dict[str, _Told] = {}

    def tell(self, subject: str, error: BaseException, **values: object) -> None:
        """`subject` failed with `error`; `values` say where."""
        told = self._told.get(subject)
        if told is None:
            if len(self._told) >= MOST_SUBJECTS:
                self._told.clear()
            told = self._told[subject] = _Told()
        kind = kind_of(error)
        is_new = kind not in told.kinds and len(told.kinds) < MOST_KINDS
        failures = told.pace.count(self._now(), at_once=is_new)
        if not failures:
            return
        words: dict[str, object] = {"error": kind}
        if isinstance(error, _OWN_FAULTS):
            words["problem"] = str(error)
        if is_new:
            told.kinds.add(kind)
            words["exception"] = wordless_traceback(error)
        else:
            words["failures"] = failures
        self._report(self._event, **values, **words)
