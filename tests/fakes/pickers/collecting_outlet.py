"""An outlet that keeps what it is sent, for driving a transaction without a transport."""

from __future__ import annotations

from collections.abc import Iterable

from epp.transport.streams import StatusCode
from tests.fakes.pickers.gateway_client import Answer, read_answer


class CollectingOutlet:
    """Reads every answer at once, as a fast peer would."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.code: StatusCode | None = None
        self.message = ""

    def send(self, messages: Iterable[bytes]) -> None:
        assert self.code is None, "sent after close"
        self.answers.extend(read_answer(message) for message in messages)

    def close(self, code: StatusCode = StatusCode.OK, message: str = "") -> None:
        assert self.code is None, "closed twice"
        self.code, self.message = code, message

    def fail(self, code: StatusCode, message: str) -> None:
        self.close(code, message)

    def take(self) -> list[Answer]:
        """The answers since the last call."""
        taken, self.answers = self.answers, []
        return taken
