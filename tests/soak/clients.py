"""Many clients at a bounded rate, each doing one of the ways of the deck."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import grpc
from grpc_health.v1 import health_pb2

from tests.soak.deck import DECK
from tests.soak.gateway import Gateway
from tests.soak.ledger import Ledger

MOST_AT_ONCE = 400
"""Ways under way; many of them wait most of their time."""
PROBE_SECONDS = 1.0


async def traffic(gateway: Gateway, cards: Iterator[str], rate: float, until: float) -> None:
    """Begin `rate` ways a second, and wait until all are done."""
    slots = asyncio.Semaphore(MOST_AT_ONCE)

    async def in_its_slot(name: str) -> None:
        try:
            await DECK[name][0](gateway)
        except Exception as error:  # noqa: BLE001 - all of them are shown at the end
            gateway.ledger.failed(name, error)
        else:
            gateway.ledger.finished(name)
        finally:
            slots.release()

    start = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number, name in enumerate(cards):
            due = start + number / rate
            if due > until or gateway.ledger.is_hopeless:
                break
            await asyncio.sleep(max(due - time.monotonic(), 0))
            await slots.acquire()
            group.create_task(in_its_slot(name))


async def probe(ports: tuple[int, ...], ledger: Ledger) -> None:
    """Ask for the health of each port until cancelled."""
    while True:
        for port in ports:
            try:
                status = await _health(port)
            except grpc.aio.AioRpcError as error:
                ledger.failed("health probe", error)
            else:
                if status != health_pb2.HealthCheckResponse.SERVING:
                    ledger.failed("health probe", AssertionError(status))
                ledger.finished("health probe")
        await asyncio.sleep(PROBE_SECONDS)


async def _health(port: int) -> int:
    options = (("grpc.use_local_subchannel_pool", 1),)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        answer = await check(health_pb2.HealthCheckRequest(service="readiness"), timeout=30)
    return int(answer.status)
