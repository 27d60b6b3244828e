"""Endpoints that answer with errors again and again are ejected for a while (pitfall 26).

Kubernetes calls a pod ready whose model server answers every request with 503, and such a server
looks idle: it would attract the traffic it fails. So errors in a row take an endpoint out of the
candidates, for longer each time; then single requests probe whether it works again. Never answering
is an error, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint, EndpointState
    from epp.observability.metrics import Metrics

log = structlog.get_logger(__name__)

MOST_NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlierSettings:
    """When endpoints are ejected, and for how long. Times in seconds."""

    consecutive_errors: int = 5
    """0: no endpoint is ever ejected."""
    first_ejection: float = 5.0
    """Doubled each time, until a request succeeds."""
    longest_ejection: float = 300.0
    silence: float = 10.0
    """A client that gives up after having waited so long for the first sign of an answer counts as
    an error: a server that hangs answers nothing, and nobody else tells of it."""
    largest_share: float = 0.5
    """Of the candidates of any request; the others stay, however many errors they answer with."""


@dataclass(slots=True, eq=False)
class _Record:
    errors: int = 0
    ejections: int = 0
    until: float | None = None
    """End of the ejection; None: it is neither ejected nor being probed."""
    has_probe: bool = False
    """Whether a request is under way to an endpoint whose ejection is over."""

    def is_left_out(self, now: float) -> bool:
        """Whether the ejection lasts, or a probe is under way."""
        return self.until is not None and (self.until > now or self.has_probe)


class OutlierMemory:
    """What the endpoints' last answers were, as far as they were errors."""

    def __init__(
        self,
        metrics: Metrics,
        present: Callable[[], Sequence[Endpoint]],
        settings: OutlierSettings | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metrics = metrics
        self._present = present
        self._settings = settings or OutlierSettings()
        self._now = now
        self._records: dict[EndpointState, _Record] = {}
        """Only of endpoints that have answered with errors since they last answered well."""
        self._out = 0
        """How many of them were ejected and have not answered well since."""
        metrics.show_ejected(self._ejected)

    def among(self, candidates: Sequence[Endpoint]) -> Sequence[Endpoint]:
        """The candidates without those that are ejected; costs nothing while none is."""
        if not self._out:
            return candidates
        now = self._now()
        ejected = [
            (record.until, index)
            for index, endpoint in enumerate(candidates)
            if (record := self._records.get(endpoint.state)) is not None
            and record.until is not None
            and record.is_left_out(now)
        ]
        allowed = int(len(candidates) * self._settings.largest_share)
        # Whose ejection ends first comes back first.
        left_out = {index for _, index in sorted(ejected, reverse=True)[:allowed]}
        if not left_out:
            return candidates
        return [each for index, each in enumerate(candidates) if index not in left_out]

    def is_ejected(self, endpoint: Endpoint) -> bool:
        """Whether `endpoint` gets no requests: its ejection lasts, or a single one probes it."""
        record = self._records.get(endpoint.state)
        return record is not None and record.is_left_out(self._now())

    def is_distrusted(self, endpoint: Endpoint) -> bool:
        """Whether `endpoint` was ejected and has not answered well since."""
        record = self._records.get(endpoint.state)
        return record is not None and record.until is not None

    @property
    def problem(self) -> str | None:
        """Who is ejected, in a sentence."""
        if not self._out:
            return None
        present = self._present()
        ejected = [endpoint.address for endpoint in present if self.is_ejected(endpoint)]
        if not ejected:
            return None
        more = len(ejected) - MOST_NAMED
        names = ", ".join([*ejected[:MOST_NAMED], *([f"and {more} more"] if more > 0 else [])])
        return f"{len(ejected)} of {len(present)} endpoints are ejected: {names}"

    def picked(self, endpoint: Endpoint) -> None:
        """A request goes to `endpoint`: the only one, as long as it is being probed."""
        if self._out and (record := self._records.get(endpoint.state)) is not None:
            record.has_probe = record.until is not None

    def ended(self, endpoint: Endpoint, status: int, *, silent_for: float = 0.0) -> None:
        """A request to `endpoint` is over; `status` is 0 if there was no answer, and `silent_for`
        is how long its client waited for one in vain."""
        record = self._records.get(endpoint.state)
        if record is not None:
            record.has_probe = False
        if is_error(status) or silent_for >= self._settings.silence:
            self._metrics.endpoint_failed(endpoint)
            self._failed(endpoint, record)
        elif status and record is not None:
            self._worked(endpoint, record)

    def forget(self, endpoints: Iterable[Endpoint]) -> None:
        """These are gone."""
        for endpoint in endpoints:
            record = self._records.pop(endpoint.state, None)
            if record is not None and record.until is not None:
                self._out -= 1

    def _failed(self, endpoint: Endpoint, record: _Record | None) -> None:
        settings = self._settings
        if not settings.consecutive_errors:
            return
        if record is None:
            if not any(each.state is endpoint.state for each in self._present()):
                return  # it left while the request was under way, and nobody will say so again
            record = self._records[endpoint.state] = _Record()
        record.errors += 1
        now = self._now()
        is_probe = record.until is not None and record.until <= now
        if record.until is None and record.errors < settings.consecutive_errors:
            return
        if record.until is not None and not is_probe:
            return  # the answer to a request that was sent before the ejection
        if record.until is None:
            self._out += 1
            log.warning(
                "endpoint ejected: it answers with errors, or not at all", endpoint=endpoint.address
            )
        seconds = min(settings.first_ejection * 2**record.ejections, settings.longest_ejection)
        record.ejections = min(record.ejections + 1, 30)
        record.until = now + seconds
        self._metrics.endpoint_ejected()

    def _worked(self, endpoint: Endpoint, record: _Record) -> None:
        del self._records[endpoint.state]
        if record.until is not None:
            self._out -= 1
            log.info("endpoint works again", endpoint=endpoint.address)

    def _ejected(self) -> int:
        if not self._out:
            return 0
        now = self._now()
        return sum(record.is_left_out(now) for record in self._records.values())


def is_error(status: int) -> bool:
    """Whether a status tells that the server, rather than the request, is at fault."""
    return status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.NOT_IMPLEMENTED
