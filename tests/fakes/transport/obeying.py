"""A handler that does what messages say."""

from __future__ import annotations

import asyncio

from epp.transport.streams import StatusCode
from tests.fakes.transport.streams import TellingHandler


class Obeying(TellingHandler):
    """Echoes everything else."""

    def on_message(self, message: bytes) -> None:
        if message == b"flood":
            self.outlet.send(bytes(10_000) for _ in range(40))
        elif message == b"unavailable":
            self.outlet.close(StatusCode.UNAVAILABLE, "gone, 100% ä")
        elif message == b"raise":
            raise ValueError("broken")
        elif message == b"later":
            asyncio.get_running_loop().call_later(0.01, self.outlet.send, (b"at last",))
        elif message != b"silence":
            self.outlet.send((message,))

    def on_half_close(self) -> None:
        self.outlet.send((b"you are done",))
        self.outlet.close()
