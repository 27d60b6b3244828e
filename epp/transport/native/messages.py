"""gRPC messages out of DATA: five bytes of prefix, then the message, cut anywhere."""

from __future__ import annotations

from io import BytesIO
from struct import Struct

from epp.transport.native.budgets import HeldBytes
from epp.transport.streams import MessageLimits, StatusCode

PREFIX = Struct(">BL")
PREFIX_BYTES = 5
LARGEST_MESSAGE = (1 << 32) - 1

_unpack = PREFIX.unpack_from


class MessageFault(Exception):
    """The stream ends with a status because of what came as a message."""

    def __init__(self, code: StatusCode, message: str, size: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.size = size
        """Of a message over the limit."""


class MessageReader:
    """Puts the messages of one stream together, copying their bytes once."""

    __slots__ = (
        "_body",
        "_held",
        "_largest",
        "_limits",
        "_missing",
        "_prefix",
        "fault",
        "is_identity",
    )

    def __init__(self, limits: MessageLimits, held: HeldBytes, is_identity: bool) -> None:
        self._limits = limits
        limit = limits.max_receive_bytes
        self._largest = LARGEST_MESSAGE if limit is None else limit
        self._held = held
        self._prefix = b""
        self._body: BytesIO | None = None
        self._missing = 0
        self.is_identity = is_identity
        self.fault: MessageFault | None = None
        """Why there are no more messages than those returned."""

    @property
    def is_inside(self) -> bool:
        """Whether a message has begun and not ended."""
        return self._body is not None or bool(self._prefix)

    def feed(self, data: bytes, start: int, end: int) -> list[bytes]:
        """The messages complete with these bytes."""
        messages: list[bytes] = []
        if self._body is not None:
            start = self._continue(data, start, end, messages)
        elif self._prefix:
            missing = PREFIX_BYTES - len(self._prefix)
            self._prefix += data[start : min(start + missing, end)]
            start += missing
            if start > end:
                return messages
            prefix, self._prefix = self._prefix, b""
            flag, size = _unpack(prefix, 0)
            start = self._begin(flag, size, data, start, end, messages)
        while end - start >= PREFIX_BYTES:
            flag, size = _unpack(data, start)
            start += PREFIX_BYTES
            stop = start + size
            if stop <= end and not flag and size <= self._largest:
                messages.append(data[start:stop])
                start = stop
            else:
                start = self._begin(flag, size, data, start, end, messages)
        if start < end:
            self._prefix = data[start:end]
        return messages

    def drop(self) -> None:
        """Forget an incomplete message."""
        if self._body is not None:
            self._held.used -= self._body.tell()
            self._body = None
        self._prefix = b""

    def _fault(self, flag: int, size: int) -> MessageFault | None:
        if flag:
            return self._flagged(flag)
        if size <= self._largest:
            return None
        name, limit = self._limits.receive_flag, self._largest
        text = f"message of {size} bytes is larger than {name} allows ({limit} bytes)"
        return MessageFault(StatusCode.RESOURCE_EXHAUSTED, text, size)

    def _flagged(self, flag: int) -> MessageFault:
        if flag == 1 and not self.is_identity:
            text = "messages compressed in another way than identity are not understood"
            return MessageFault(StatusCode.UNIMPLEMENTED, text)
        return MessageFault(StatusCode.INTERNAL, f"unexpected compressed-flag {flag}")

    def _begin(
        self, flag: int, size: int, data: bytes, start: int, end: int, messages: list[bytes]
    ) -> int:
        self.fault = self._fault(flag, size)
        if self.fault is not None:
            return end
        self._missing = size
        self._body = BytesIO()
        return self._continue(data, start, end, messages)

    def _continue(self, data: bytes, start: int, end: int, messages: list[bytes]) -> int:
        body = self._body
        assert body is not None
        stop = min(start + self._missing, end)
        body.write(memoryview(data)[start:stop])
        self._missing -= stop - start
        if self._missing == 0:
            self._held.used -= body.tell() - (stop - start)
            messages.append(body.getvalue())
            self._body = None
            return stop
        self._held.used += stop - start
        if self._held.is_too_much_for(body.tell()):
            text = "the server holds as much as it can of messages that are not complete"
            self.fault = MessageFault(StatusCode.RESOURCE_EXHAUSTED, text)
        return end
