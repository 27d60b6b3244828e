"""What goes on between the process and the API server."""

from __future__ import annotations

from collections.abc import Callable

from epp.observability import metric_catalogue as catalogue
from epp.observability.instruments import Computed, FamilySet

_REFUSALS = ("no-token", "invalid-token", "forbidden", "review-failed", "too-many-reviews")


class ClusterMetrics:
    """Counts as the observer of what is listed and watched, and shows who leads."""

    def __init__(self, build: FamilySet, now: Callable[[], float]) -> None:
        self._now = now
        self._contacts: dict[str, float] = {}
        self._problems = build.counter(catalogue.POOL_PROBLEMS)
        self._leader = build.gauge(catalogue.LEADER)
        self._synced = build.gauge(catalogue.INFORMER_SYNCED)
        self._relists = build.counter(catalogue.INFORMER_RELISTS)
        self._errors = build.counter(catalogue.INFORMER_WATCH_ERRORS)
        self._events = build.counter(catalogue.INFORMER_EVENTS)
        self._repairs = build.counter(catalogue.INFORMER_REPAIRS)
        self._scrapes_refused = build.counter(catalogue.SCRAPES_REFUSED)
        for kind in ("invalid", "gone"):  # a rate needs its zero
            self._problems.labels((kind,))
        self._events_written = build.counter(catalogue.EVENTS)
        for outcome in ("written", "failed"):
            self._events_written.labels((outcome,))
        for reason in _REFUSALS:
            self._scrapes_refused.labels((reason,))
        self.last_contact = Computed(catalogue.INFORMER_LAST_CONTACT, self._ages)

    def synced(self, resource: str, is_synced: bool) -> None:
        """Whether everything the API server knows has been told at least once."""
        self._synced.labels((resource,)).set(int(is_synced))
        self._repairs.labels((resource,))
        if not is_synced:
            # Nobody asks for it any more: that nothing is heard of it is no outage.
            self._contacts.pop(resource, None)

    def contacted(self, resource: str) -> None:
        """The API server was heard of."""
        self._contacts[resource] = self._now()

    def relisted(self, resource: str, reason: str) -> None:
        """Everything was asked for and is known now."""
        self._relists.labels((resource, reason)).inc()

    def watch_failed(self, resource: str, kind: str) -> None:
        """A list or watch ended in an error, or one object of it could not be read."""
        self._synced.labels((resource,))  # 0 for what was never read: alerts look at it
        self._errors.labels((resource, kind)).inc()

    def event_received(self, resource: str, type_: str) -> None:
        """A watch told something."""
        self._events.labels((resource, type_)).inc()

    def repaired(self, resource: str, changes: int) -> None:
        """A relist found changes that a watch should have told."""
        self._repairs.labels((resource,)).inc(changes)

    def pool_rejected(self) -> None:
        """The InferencePool is not valid; the last good one stays."""
        self._problems.labels(("invalid",)).inc()

    def pool_gone(self) -> None:
        """There is no InferencePool any more."""
        self._problems.labels(("gone",)).inc()

    def scrape_refused(self, reason: str) -> None:
        """Somebody was not let in at the metrics port."""
        self._scrapes_refused.labels((reason,)).inc()

    def event_told(self, outcome: str) -> None:
        """A Kubernetes Event was written, or could not be."""
        self._events_written.labels((outcome,)).inc()

    def leads(self, leads: bool) -> None:
        """Whether this replica is the leader, where one is elected."""
        self._leader.labels(()).set(int(leads))

    def _ages(self) -> dict[tuple[str, ...], float]:
        now = self._now()
        return {(resource,): now - contact for resource, contact in self._contacts.items()}
