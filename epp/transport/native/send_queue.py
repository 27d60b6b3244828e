"""What a handler wants to send on one stream, and DATA made of it as windows allow."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from epp.transport.message_generators import close_generator
from epp.transport.native.budgets import HeldBytes
from epp.transport.native.messages import LARGEST_MESSAGE, PREFIX, PREFIX_BYTES
from epp.transport.native.outbox import Buffer

MESSAGE_COST = 48
"""Bytes that a queued message takes besides its own: pieces of a stream are often shorter."""


class SendQueue:
    """Messages in order; those of generators are made when there is room for them."""

    __slots__ = ("_held", "_max_message_bytes", "_own", "_queue", "_rest", "is_overflowing")

    def __init__(self, held: HeldBytes, max_message_bytes: int | None) -> None:
        self._held = held
        self._max_message_bytes = (
            LARGEST_MESSAGE if max_message_bytes is None else max_message_bytes
        )
        self._own = 0
        """What this queue has added to `held`."""
        self._queue: deque[bytes | Iterator[bytes]] = deque()
        self._rest: list[Buffer] = []
        """Of a message that was too large for one frame."""
        self.is_overflowing = False
        """Whether something was not taken, as too much is held by all streams together."""

    def __bool__(self) -> bool:
        return bool(self._queue or self._rest)

    def put(self, messages: Iterable[bytes]) -> None:
        """Queue messages."""
        if self.is_overflowing:
            close_generator(messages)
        elif isinstance(messages, tuple | list):
            held = self._held
            size = sum(map(len, messages)) + MESSAGE_COST * len(messages)
            self._own += size
            held.used += size
            self._queue.extend(messages)
            self.is_overflowing = held.is_too_much_for(self._own)
        else:
            self._queue.append(iter(messages))

    def put_text(self, text: bytes) -> None:
        """Queue bytes that are no gRPC message."""
        self._rest.append(text)
        self._hold(len(text))

    def drop(self) -> None:
        """Forget everything, and close generators."""
        queue, self._queue = self._queue, deque()
        self._rest = []
        self._held.used -= self._own
        self._own = 0
        for messages in queue:
            close_generator(messages)

    def fill(self, parts: list[Buffer], room: int) -> None:
        """Move what fits to `parts`; of a message that does not fit, the beginning.

        Raises what a generator raises; `parts` holds what came before.
        """
        rest = self._rest
        while True:
            if rest:
                if room == 0:
                    return
                room -= self._move_rest(parts, room)
                continue
            message = self._next()
            if message is None:
                return
            size = len(message)
            if size > self._max_message_bytes:
                raise ValueError(f"an answer of {size} bytes, more than may be sent")
            prefix = PREFIX.pack(0, size)
            if size + PREFIX_BYTES <= room:
                parts += (prefix, message)
                room -= size + PREFIX_BYTES
            else:
                rest += (prefix, message) if size else (prefix,)
                self._hold(size + PREFIX_BYTES)

    def _move_rest(self, parts: list[Buffer], room: int) -> int:
        buffer = self._rest[0]
        part = memoryview(buffer)[:room]
        size = len(part)
        if size < len(buffer):
            self._rest[0] = memoryview(buffer)[room:]
        else:
            del self._rest[0]
        parts.append(part)
        self._hold(-size)
        return size

    def _next(self) -> bytes | None:
        """Take the next message."""
        queue = self._queue
        while queue:
            first = queue[0]
            if isinstance(first, bytes):
                queue.popleft()
                self._hold(-len(first) - MESSAGE_COST)
                return first
            message = next(first, None)
            if message is not None:
                return message
            if queue and queue[0] is first:
                queue.popleft()
        return None

    def _hold(self, size: int) -> None:
        self._own += size
        self._held.used += size
