"""The page `/log-level`: the level of the log, to be read, changed and put back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from epp.admin.json_answers import READ_SECONDS, json_answer, late_answer, problem_answer
from epp.framework.errors import PickerError
from epp.observability.logging import LEVELS, LogLevel

if TYPE_CHECKING:
    from epp.observability.log_level import LogLevelSwitch

MOST_BYTES = 256
"""Of a body that names a level."""


class LogLevelView(msgspec.Struct, frozen=True, kw_only=True):
    """What `/log-level` answers with."""

    level: LogLevel
    """The level in force."""
    configured: LogLevel
    """The level the process began with."""
    levels: Sequence[LogLevel]
    """Those there are, the least talkative first."""


class _Wanted(msgspec.Struct, forbid_unknown_fields=True):
    level: str


class _LevelError(PickerError):
    """What was sent names no level."""


class LogLevelPages:
    """`GET` tells the level, `PUT` changes it until the process ends, `DELETE` puts it back."""

    def __init__(self, level: LogLevelSwitch) -> None:
        self._level = level

    def add_to(self, router: web.UrlDispatcher) -> None:
        """Serve it."""
        router.add_get("/log-level", self._tell)
        router.add_put("/log-level", self._change)
        router.add_delete("/log-level", self._put_back)

    async def _tell(self, _request: web.Request) -> web.Response:
        view = LogLevelView(
            level=self._level.in_force, configured=self._level.configured, levels=tuple(LEVELS)
        )
        return json_answer(view)

    async def _change(self, request: web.Request) -> web.Response:
        try:
            self._level.use(_level_of(await _body(request), request.content_type))
        except TimeoutError:
            return late_answer()
        except _LevelError as error:
            return problem_answer(HTTPStatus.BAD_REQUEST, str(error))
        return await self._tell(request)

    async def _put_back(self, request: web.Request) -> web.Response:
        self._level.reset()
        return await self._tell(request)


async def _body(request: web.Request) -> bytes:
    try:
        async with asyncio.timeout(READ_SECONDS):
            await request.content.readexactly(MOST_BYTES + 1)
    except asyncio.IncompleteReadError as error:
        return error.partial
    raise _LevelError(f"the body is longer than the {MOST_BYTES} bytes allowed")


def _level_of(body: bytes, content_type: str) -> LogLevel:
    text = body.decode("utf-8", "replace").strip()
    if content_type == "application/json":
        try:
            text = msgspec.json.decode(body, type=_Wanted).level
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise _LevelError(f'the body must be as {{"level": "debug"}}: {error}') from error
    for level in LEVELS:
        if level == text.lower():
            return level
    raise _LevelError(f"level: {text[:64]!r}: must be one of {', '.join(LEVELS)}")
