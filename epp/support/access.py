"""Whose token is this, and what may they do: questions to somebody who knows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Whom a token belongs to."""

    username: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = field(default_factory=dict)


class ReviewFailed(Exception):
    """There is no answer; `kind` is the same for as long as the cause is."""

    def __init__(self, kind: str, problem: str) -> None:
        super().__init__(problem)
        self.kind = kind


class Reviews(Protocol):
    """Somebody who knows; each question may raise `ReviewFailed`."""

    async def authenticate(self, token: str) -> Identity | None:
        """Whom the token belongs to; None: it is not valid."""

    async def authorize(self, identity: Identity, path: str, verb: str) -> bool:
        """Whether they may do this to a path of ours."""
