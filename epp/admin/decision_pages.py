"""Pages about decisions: `/decisions`, `/decisions/{request id}` and `/decisions/dry-run`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

from aiohttp import web

from epp.admin.decision_view import DecisionList, Summary
from epp.admin.decision_viewing import summary_of, view_decision
from epp.admin.dry_run import MOST_DRY_RUN_BYTES, DryRunError, read_dry_run
from epp.admin.json_answers import READ_SECONDS, json_answer, late_answer, problem_answer

if TYPE_CHECKING:
    from epp.request_control.decision_log import Decision, DecisionLog
    from epp.request_control.incoming import IncomingRequest

DEFAULT_LIMIT = 50
MOST_TOLD = 8
"""Decisions told of one request id."""
_PER_TURN = 50


class DecisionPages:
    """Tells of decisions that were made, and of those that would be."""

    def __init__(
        self,
        decisions: DecisionLog | None,
        rehearse: Callable[[IncomingRequest], Awaitable[Decision]],
    ) -> None:
        self._decisions = decisions
        self._rehearse = rehearse
        self._is_rehearsing = False

    def add_to(self, router: web.UrlDispatcher) -> None:
        """Serve them."""
        router.add_get("/decisions", self._last)
        router.add_post("/decisions/dry-run", self._dry_run)
        router.add_get("/decisions/{request_id:(?s:.+)}", self._of_request)

    async def _last(self, request: web.Request) -> web.Response:
        if self._decisions is None:
            return _not_kept()
        text = request.query.get("limit", str(DEFAULT_LIMIT))
        limit = int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0
        if not limit:
            return problem_answer(
                HTTPStatus.BAD_REQUEST, f"limit: {text[:64]!r}: must be a number from 1 to 999999"
            )
        now = time.monotonic()
        return json_answer(
            DecisionList(
                size=self._decisions.size,
                kept=len(self._decisions),
                decisions=await _summaries(self._decisions.last(limit), now),
            )
        )

    async def _of_request(self, request: web.Request) -> web.Response:
        if self._decisions is None:
            return _not_kept()
        wanted = request.match_info["request_id"]
        found = self._decisions.find(wanted)
        if not found:
            return problem_answer(
                HTTPStatus.NOT_FOUND,
                f"request {wanted[:128]!r} is not among the last {len(self._decisions)} decisions"
                f" of this replica (--decision-log-size {self._decisions.size})",
            )
        now = time.monotonic()
        return json_answer([view_decision(each, now) for each in found[:MOST_TOLD]])

    async def _dry_run(self, request: web.Request) -> web.Response:
        # A page of another site can send anything but this type without asking first.
        if request.content_type != "application/json":
            return problem_answer(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"content-type: {request.content_type[:64]!r}: must be application/json",
            )
        if self._is_rehearsing:
            return problem_answer(
                HTTPStatus.TOO_MANY_REQUESTS, "another dry run is under way; there is one at a time"
            )
        self._is_rehearsing = True
        try:
            async with asyncio.timeout(READ_SECONDS):
                content = await request.read()
            incoming = read_dry_run(content, time.monotonic())
            decision = await self._rehearse(incoming)
        except TimeoutError:
            return late_answer()
        except web.HTTPRequestEntityTooLarge:
            return problem_answer(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the body is larger than the {MOST_DRY_RUN_BYTES} bytes allowed",
            )
        except DryRunError as error:
            return problem_answer(HTTPStatus.BAD_REQUEST, str(error))
        finally:
            self._is_rehearsing = False
        return json_answer(view_decision(decision, time.monotonic()))


async def _summaries(decisions: Sequence[Decision], now: float) -> list[Summary]:
    """One for each, in turns of the event loop: many must not hold up requests."""
    summaries: list[Summary] = []
    for start in range(0, len(decisions), _PER_TURN):
        turn = decisions[start : start + _PER_TURN]
        summaries += [summary_of(each, now) for each in turn]
        await asyncio.sleep(0)
    return summaries


def _not_kept() -> web.Response:
    return problem_answer(HTTPStatus.NOT_FOUND, "decisions are not kept: --decision-log-size is 0")
