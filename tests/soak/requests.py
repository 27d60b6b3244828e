"""Requests that get what they deserve: an answer of a model server, or an error."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from contextlib import suppress

from tests.soak.gateway import HALF_A_BODY, KIB, SIZES, Gateway
from tests.soak.talks import PIECE_BYTES, STREAMED, WHOLE_ANSWER, Rejected, body_of, gzipped

LARGE_BYTES = 4 * KIB * KIB
LIMIT_BYTES = 64 * KIB * KIB
"""Default of --max-request-body-bytes."""
MALFORMED = (b"this is no JSON", b'{"model":', b'{"prompt":"who?"}', b"[]", b"\xff\xfe")
INFLATED = gzip.compress(b" " * LARGE_BYTES)


async def answered(gateway: Gateway) -> None:
    """A request and a streamed response; 503 where the model server is sick."""
    talk = gateway.talk()
    destination = await talk.request(gateway.body())
    if gateway.is_sick(destination):
        await talk.respond("503")
        await talk.finish(b"overloaded")
        return
    await talk.respond()
    chunks = min(int(gateway.rng.expovariate(1 / 30)), 200)
    await talk.chunks(chunks)
    await talk.finish() if chunks else await talk.finish(WHOLE_ANSWER)


async def streamed(gateway: Gateway) -> None:
    """The same where the gateway keeps the bodies: it is told of each piece to go on."""
    talk = gateway.talk(mode=STREAMED)
    await talk.headers()
    await talk.destination()
    body = gateway.body()
    await talk.pieces(body, end=True)
    for _ in range(0, len(body), PIECE_BYTES):
        await talk.read()
    await talk.respond()
    await talk.chunks(gateway.rng.randrange(60))
    await talk.finish()


async def large_body(gateway: Gateway) -> None:
    """A body of megabytes."""
    talk = gateway.talk()
    await talk.request(body_of(LARGE_BYTES, gateway.rng))
    await talk.respond()
    await talk.finish()


async def compressed_body(gateway: Gateway) -> None:
    """A body that has to be decoded to be read."""
    talk = gateway.talk()
    size = gateway.rng.choice((*SIZES, LARGE_BYTES))
    await talk.request(gzipped(size), {"content-encoding": "gzip"})
    await talk.respond()
    await talk.chunks(3)
    await talk.finish()


async def inflated_body(gateway: Gateway) -> None:
    """A small body that would be a large one once decoded."""
    await _rejected(gateway, INFLATED, {"content-encoding": "gzip"})


async def without_body(gateway: Gateway) -> None:
    """A request that ends with its headers."""
    talk = gateway.talk()
    await talk.headers({":method": "GET", ":path": "/v1/models"}, end=True)
    await talk.destination()
    gateway.ledger.without_body += 1
    await talk.respond()
    await talk.finish(WHOLE_ANSWER)


async def malformed(gateway: Gateway) -> None:
    """A body that can't be read."""
    await _rejected(gateway, gateway.rng.choice(MALFORMED))


async def declared_too_large(gateway: Gateway) -> None:
    """A body that is over the limit by its own account."""
    talk = gateway.talk()
    await talk.headers({"content-length": str(LIMIT_BYTES + 1)})
    with suppress(Rejected):
        await talk.destination()
        raise AssertionError("it was not rejected")


async def too_large(gateway: Gateway) -> None:
    """A body that grows over the limit."""
    talk = gateway.talk()
    await talk.headers()
    piece = b" " * PIECE_BYTES
    for _ in range(LIMIT_BYTES // PIECE_BYTES + 1):
        await talk.say("request_body", body=piece)
    with suppress(Rejected):
        await talk.destination()
        raise AssertionError("it was not rejected")


async def stops_in_body(gateway: Gateway) -> None:
    """A body whose second half never comes."""
    talk = gateway.talk()
    await talk.headers()
    await talk.pieces(HALF_A_BODY, end=False)
    with suppress(Rejected):
        await talk.destination()
        raise AssertionError("it was not rejected")


async def _rejected(gateway: Gateway, body: bytes, more: Mapping[str, str] | None = None) -> None:
    with suppress(Rejected):
        await gateway.talk().request(body, more)
        raise AssertionError(f"it was not rejected: {body[:40]!r}")
