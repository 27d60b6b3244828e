"""What the clients of a soak share, and the stages a stream of theirs can be in."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import grpc

from tests.soak.ledger import Ledger
from tests.soak.talks import FULL_DUPLEX, Talk, body_of

KIB = 1024
SIZES = (1 * KIB, 2 * KIB, 4 * KIB, 8 * KIB, 16 * KIB, 64 * KIB, 128 * KIB, 256 * KIB)
HALF_A_BODY = b'{"model":"m","prompt":"' + b"word " * 3000
STAGES = ("in headers", "in body", "after pick", "in response")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """What a client needs: connections, chance, and the account."""

    port: int
    channels: tuple[grpc.aio.Channel, ...]
    rng: random.Random
    ledger: Ledger
    is_sick: Callable[[str], bool]
    """Whether the model server at a destination answers with 503."""

    def talk(self, channel: grpc.aio.Channel | None = None, mode: str = FULL_DUPLEX) -> Talk:
        """A new stream on one of the lasting connections, or on `channel`."""
        return Talk(channel or self.rng.choice(self.channels), self.ledger, mode)

    def body(self) -> bytes:
        """A request's body of one of the usual sizes."""
        return body_of(self.rng.choice(SIZES), self.rng)


Way = Callable[[Gateway], Awaitable[None]]


async def reach(talk: Talk, stage: int, gateway: Gateway) -> bool:
    """Bring a stream to a stage; whether it has an endpoint there."""
    await talk.headers()
    if stage == 0:
        return False
    if stage == 1:
        await talk.pieces(HALF_A_BODY, end=False)
        return False
    body = gateway.body()
    await talk.pieces(body, end=True)
    await talk.destination()
    await talk.body_again(len(body))
    if stage > 2:
        await talk.respond()
        await talk.chunks(gateway.rng.randrange(1, 20))
    return True
