"""Who may read a page: answers of a reviewer, remembered for a while, and asked for seldom."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from epp.support.access import Identity, ReviewFailed, Reviews

DEADLINE_SECONDS = 10.0
ACCEPTED_SECONDS = 60.0
"""How long a token that was valid counts as valid."""
REFUSED_SECONDS = 30.0
ALLOWED_SECONDS = 300.0
DENIED_SECONDS = 30.0
MOST_ANSWERS = 512
"""Of each kind."""
MOST_REVIEWS_AT_ONCE = 4
REVIEWS_PER_SECOND = 5.0
BURST = 20.0


class Verdict(StrEnum):
    """What becomes of somebody with a token."""

    ALLOWED = "allowed"
    INVALID_TOKEN = "invalid-token"
    FORBIDDEN = "forbidden"


class TooManyReviews(Exception):
    """Too many tokens that nobody has seen before."""


Answer = TypeVar("Answer")


class _Answers(Generic[Answer]):
    """The last answers by digest, each with the time it ends at."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, tuple[Answer, float]] = OrderedDict()

    def __contains__(self, key: bytes) -> bool:
        return key in self._kept

    def find(self, key: bytes, now: float) -> Answer | None:
        """The answer, if it is still good."""
        found = self._kept.get(key)
        if found is None or found[1] <= now:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def keep(self, key: bytes, answer: Answer, until: float) -> None:
        """Remember it, and forget the one that was used the longest ago."""
        self._kept[key] = answer, until
        self._kept.move_to_end(key)
        if len(self._kept) > MOST_ANSWERS:
            self._kept.popitem(last=False)

    def forget(self, key: bytes) -> None:
        """Remember it no longer."""
        self._kept.pop(key, None)


class _Allowance:
    """So many a second, and some at once."""

    def __init__(self, now: float) -> None:
        self._left = BURST
        self._at = now

    def take(self, now: float) -> bool:
        """Whether there was one left."""
        self._left = min(BURST, self._left + (now - self._at) * REVIEWS_PER_SECOND)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Access:
    """Knows who may read which page. Tokens are kept as keyed digests only."""

    def __init__(self, reviews: Reviews, now: Callable[[], float] = time.monotonic) -> None:
        self._reviews = reviews
        self._now = now
        self._key = secrets.token_bytes(32)
        self._accepted = _Answers[Identity]()
        # Apart from the others, so that no flood of made-up tokens drives those out.
        self._refused = _Answers[bool]()
        self._rights = _Answers[bool]()
        self._strangers = asyncio.Semaphore(MOST_REVIEWS_AT_ONCE)
        # Apart as well: where answers come slowly, made-up tokens wait for them in a long row.
        self._acquainted = asyncio.Semaphore(MOST_REVIEWS_AT_ONCE)
        self._allowance = _Allowance(now())

    async def verdict(self, token: str, path: str, verb: str) -> Verdict:
        """What becomes of the token; raises `ReviewFailed` and `TooManyReviews`."""
        digest = self._digest(token.encode())
        at_once = self._acquainted if digest in self._accepted else self._strangers
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                identity = await self._identity(token, digest, at_once)
                if identity is None:
                    return Verdict.INVALID_TOKEN
                allowed = await self._is_allowed(identity, path, verb, at_once)
        except TimeoutError as error:
            problem = f"there was no answer within {DEADLINE_SECONDS:g} s"
            raise ReviewFailed("silent", problem) from error
        return Verdict.ALLOWED if allowed else Verdict.FORBIDDEN

    async def _identity(
        self, token: str, digest: bytes, at_once: asyncio.Semaphore
    ) -> Identity | None:
        if self._refused.find(digest, self._now()):
            return None
        if known := self._accepted.find(digest, self._now()):
            return known
        # One that was valid before is asked about whatever others do.
        if digest not in self._accepted and not self._allowance.take(self._now()):
            raise TooManyReviews
        async with at_once:
            if known := self._accepted.find(digest, self._now()):  # another request asked
                return known
            identity = await self._reviews.authenticate(token)
        if identity is None:
            self._accepted.forget(digest)
            self._refused.keep(digest, True, self._now() + REFUSED_SECONDS)
        else:
            self._accepted.keep(digest, identity, self._now() + ACCEPTED_SECONDS)
        return identity

    async def _is_allowed(
        self, identity: Identity, path: str, verb: str, at_once: asyncio.Semaphore
    ) -> bool:
        digest = self._digest(msgspec.json.encode((asdict(identity), path, verb)))
        known = self._rights.find(digest, self._now())
        if known is not None:
            return known
        async with at_once:
            known = self._rights.find(digest, self._now())
            if known is not None:
                return known
            allowed = await self._reviews.authorize(identity, path, verb)
        seconds = ALLOWED_SECONDS if allowed else DENIED_SECONDS
        self._rights.keep(digest, allowed, self._now() + seconds)
        return allowed

    def _digest(self, content: bytes) -> bytes:
        return hashlib.blake2b(content, key=self._key, digest_size=32).digest()
