"""Failures that reach the event loop, since nobody handled them, as lines of the log."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import structlog

from epp.support.wordless import wordless_traceback

log = structlog.get_logger(__name__)

_SHOWN_OBJECT = re.compile(r"[(<{'\"]")
"""Where asyncio goes on with what callbacks were called with: messages of gateways among it."""


def tell_of_fault(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """For `loop.set_exception_handler`: asyncio's own shows arguments and exceptions' texts."""
    what = _SHOWN_OBJECT.split(str(context.get("message", "")), maxsplit=1)[0].strip()
    error = context.get("exception")
    shown = {"exception": wordless_traceback(error)} if isinstance(error, BaseException) else {}
    log.error("failure in the event loop", what=what, **shown)
