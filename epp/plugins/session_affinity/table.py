"""Which endpoint a session belongs to; bounded in number and in time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from epp.framework.endpoint import EndpointId

MAX_SESSIONS = 100_000
"""About 30 MB. Beyond it the sessions that were idle longest are forgotten."""

_LONGEST_KEY = 128


class SessionTable:
    """Sessions and the endpoints they are bound to, least recently used first."""

    def __init__(
        self, ttl_seconds: float, now: Callable[[], float], *, capacity: int = MAX_SESSIONS
    ) -> None:
        self._ttl = ttl_seconds
        self._now = now
        self._capacity = capacity
        self._bindings: dict[str | bytes, tuple[EndpointId, float]] = {}

    def __len__(self) -> int:
        self._forget_expired(self._now())
        return len(self._bindings)

    def bound(self, session: str) -> EndpointId | None:
        """The endpoint of a session; None when there is none, or when it was idle for too long."""
        binding = self._bindings.get(_key(session))
        if binding is None or self._now() - binding[1] > self._ttl:
            return None
        return binding[0]

    def bind(self, session: str, endpoint: EndpointId) -> None:
        """Bind a session, or keep it bound for another while."""
        now, key = self._now(), _key(session)
        self._bindings.pop(key, None)
        self._bindings[key] = endpoint, now
        self._forget_expired(now)
        if len(self._bindings) > self._capacity:
            del self._bindings[next(iter(self._bindings))]

    def _forget_expired(self, now: float) -> None:
        """Work is shared out: each binding is dropped once, oldest first."""
        while self._bindings:
            oldest = next(iter(self._bindings))
            if now - self._bindings[oldest][1] <= self._ttl:
                return
            del self._bindings[oldest]


def _key(session: str) -> str | bytes:
    """Clients choose session ids: a long one is kept as its hash, so that memory is bounded."""
    if len(session) <= _LONGEST_KEY:
        return session
    return hashlib.blake2b(session.encode(), digest_size=32).digest()
