"""What comes of a list or a watch that failed: who is told of it, and how long to wait."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from epp.kubernetes.backoff import Backoff
from epp.kubernetes.failure_report import FailureReport
from epp.kubernetes.observer import WatchErrorKind
from epp.kubernetes.reflector_context import ReflectorContext
from epp.kubernetes.resource import Resource

_KINDS = {
    HTTPStatus.UNAUTHORIZED: WatchErrorKind.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN: WatchErrorKind.FORBIDDEN,
    HTTPStatus.NOT_FOUND: WatchErrorKind.NOT_FOUND,
    HTTPStatus.GONE: WatchErrorKind.EXPIRED,
    HTTPStatus.TOO_MANY_REQUESTS: WatchErrorKind.THROTTLED,
}
_OVER_WITH_AN_ANSWER = (WatchErrorKind.UNREACHABLE, *_KINDS.values())


class WatchFailures:
    """Those of one resource, and their end."""

    def __init__(self, context: ReflectorContext, resource: Resource[Any]) -> None:
        self._settings = settings = context.settings
        self._observer = context.observer
        self._rng = context.rng
        self._now = context.now
        self._resource = resource
        self._backoff = Backoff(
            first=settings.first_pause,
            longest=settings.longest_pause,
            reset_after=settings.pause_reset_after,
            rng=context.rng,
            now=context.now,
        )
        self._report = FailureReport(resource)
        self._last: WatchErrorKind | None = None
        self._expired_at = float("-inf")

    @property
    def problem(self) -> str | None:
        """What the last attempt failed for, if it failed."""
        return self._report.problem

    def failed(
        self, kind: WatchErrorKind, verb: str, problem: str, retry_after: float | None = None
    ) -> float:
        """An attempt has failed; returns the pause before the next one.

        `retry_after` is what the server asks for.
        """
        settings = self._settings
        if kind is WatchErrorKind.EXPIRED and self._expires_seldom():
            pause = self._rng.uniform(0, settings.relist_spread)
        else:
            pause = self._backoff.failed(min(retry_after or 0.0, settings.longest_retry_after))
        self._last = kind
        self._observer.watch_failed(self._resource.name, kind)
        self._report.failed(kind, verb, problem, pause)
        return pause

    def answered(self) -> None:
        """The API server agrees to a list or a watch, of which nothing has come yet."""
        if self._last in _OVER_WITH_AN_ANSWER:
            self.works()

    def works(self) -> None:
        """The API server told what it was asked for."""
        self._last = None
        self._report.works()

    def _expires_seldom(self) -> bool:
        """Whether this is the first time in a while: lists that work in between are no excuse."""
        last, self._expired_at = self._expired_at, self._now()
        return self._now() - last > self._settings.pause_reset_after


def kind_of_status(status: int) -> WatchErrorKind:
    """What an answer that is no means."""
    if status in _KINDS:
        return _KINDS[HTTPStatus(status)]
    return WatchErrorKind.STATUS
