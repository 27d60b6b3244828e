"""Clocks of the calendar are set back and forth; what is measured must not notice."""

from __future__ import annotations

import re
from pathlib import Path

EPP = Path(__file__).parents[3] / "epp"
CALENDAR = re.compile(r"\btime\.time(_ns)?\(|\bdatetime\.(now|utcnow)\(")
TOLD = {
    "admin/decision_viewing.py",
    "admin/metrics_pages.py",
    "app/listeners.py",
    "diagnosis/checks/port.py",
    "kubernetes/events.py",
    "kubernetes/leader_election.py",
    "observability/request_log.py",
    "simulator/clock.py",
    "tracing/export.py",
}
"""Where a date is told or compared with another, rather than a time measured."""


def test_the_calendar_is_looked_at_to_tell_a_date_and_to_measure_nothing() -> None:
    looking = {
        str(path.relative_to(EPP))
        for path in EPP.rglob("*.py")
        if CALENDAR.search(path.read_text())
    }

    assert looking == TOLD
