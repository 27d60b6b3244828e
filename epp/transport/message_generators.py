"""Messages that are made as the peer reads them, and the end of those that it does not."""

from __future__ import annotations

from collections.abc import Generator

import structlog

log = structlog.get_logger(__name__)


def close_generator(messages: object) -> None:
    """End a generator whose messages are not wanted any more."""
    if not isinstance(messages, Generator):
        return
    try:
        messages.close()
    except Exception:
        log.exception("closing a generator of messages failed")
