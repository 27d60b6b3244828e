"""How it goes with the files that are followed: the pool file and the configuration."""

from __future__ import annotations

from typing import Literal

from epp.observability import metric_catalogue as catalogue
from epp.observability.instruments import FamilySet

Outcome = Literal["success", "failure"]


class FileMetrics:
    """Counts what was read, and whether it is in force."""

    def __init__(self, build: FamilySet) -> None:
        self._pool_file_errors = build.counter(catalogue.POOL_FILE_ERRORS)
        self._pool_reloads = build.counter(catalogue.POOL_RELOADS)
        self._pool_file_up_to_date = build.gauge(catalogue.POOL_FILE_UP_TO_DATE)
        self._config_reloads = build.counter(catalogue.CONFIG_RELOADS)
        self._config_up_to_date = build.gauge(catalogue.CONFIG_UP_TO_DATE).labels(())
        self._config_up_to_date.set(1)
        # A rate over a counter needs its zero.
        for outcome in ("success", "failure"):
            self._pool_reloads.labels((outcome,))
            self._config_reloads.labels((outcome,))
        for kind in ("document", "entry"):
            self._pool_file_errors.labels((kind,))

    def pool_file_error(self, kind: Literal["document", "entry"]) -> None:
        """The pool file has a mistake."""
        self._pool_file_errors.labels((kind,)).inc()

    def pool_reloaded(self, outcome: Outcome) -> None:
        """The pool file was read: it is in force, or the last good one stays."""
        self._pool_reloads.labels((outcome,)).inc()
        self._pool_file_up_to_date.labels(()).set(outcome == "success")

    def config_reloaded(self, outcome: Outcome) -> None:
        """A changed configuration was taken over, or refused."""
        self._config_reloads.labels((outcome,)).inc()
        self._config_up_to_date.set(outcome == "success")
