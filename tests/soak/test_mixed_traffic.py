"""All that can happen to a picker, at once and for long: nothing is lost, nothing stays behind."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.fakes.eventually import eventually
from tests.fakes.metrics.samples import sum_of
from tests.fakes.programs.serving import ServingPicker, VitalSigns, serving_picker
from tests.soak.agreement import agrees
from tests.soak.churn import (
    CONFIGURATIONS,
    PodChurn,
    churn_configuration,
    churn_pool,
    replace,
)
from tests.soak.clients import probe, traffic
from tests.soak.deck import shuffled
from tests.soak.gateway import Gateway
from tests.soak.ledger import Ledger
from tests.soak.model_servers import ModelServers
from tests.soak.samples import MIB, Sample, resident_growth, sample, table
from tests.soak.talks import open_channel

TRANSPORTS = ("grpc", "native")
SECONDS = float(os.environ.get("EPP_SOAK_SECONDS", "1800")) / len(TRANSPORTS)
WARM_UP_SECONDS = SECONDS / 6
"""Allocators, caches, tables of series and the prefix index grow to their size meanwhile."""
RATE = float(os.environ.get("EPP_SOAK_RATE", "40"))
"""Ways begun per second, a twentieth of what a picker can take."""
SEED = int(os.environ.get("EPP_SOAK_SEED", "6"))
ENDPOINTS = 20
SICK_SECONDS = 20.0
"""How long a model server answers requests with 503, before another one does."""

FLAGS = (
    "--body-idle-timeout=10s",  # so that many bodies meet it
    "--max-loop-lag=1h",  # whether a shared machine hiccups is not the question
)

LARGEST_GROWTH_BYTES = 8 * MIB
LARGEST_GROWTH_SHARE = 0.05
"""Of resident memory, from the first third after the warm-up to the last: what fragmentation and
the largest bodies move it by. In 15 minutes a leak of 600 bytes for each stream is more."""
SPARE_FILES = 4
"""Descriptors: a scrape may be opening a connection anew at the moment."""
SPARE_TASKS = 12
"""Scrapes under way, and their connections."""
SPARE_THREADS = 2
"""Of the loop's pool for files, which grows when two are read at once."""


@dataclass(frozen=True, slots=True)
class Soak:
    """A picker with all that acts upon it."""

    picker: ServingPicker
    servers: ModelServers
    pods: PodChurn
    configuration: Path
    gateway: Gateway
    cards: Iterator[str]
    samples: list[Sample] = field(default_factory=list)

    @property
    def ledger(self) -> Ledger:
        return self.gateway.ledger

    async def traffic_for(self, seconds: float) -> None:
        """Requests of all kinds, with everything around them changing."""
        await self._while_all_changes(
            traffic(self.gateway, self.cards, RATE, time.monotonic() + seconds)
        )
        replace(self.picker.pool_file, self.pods.everyone())
        replace(self.configuration, CONFIGURATIONS[0])

    async def _while_all_changes(self, work: Awaitable[None]) -> None:
        picker = self.picker
        ports = (picker.ext_proc_port, picker.health_port)
        async with asyncio.TaskGroup() as group:
            around = [
                group.create_task(churn_pool(picker.pool_file, self.pods)),
                group.create_task(churn_configuration(self.configuration)),
                group.create_task(probe(ports, self.ledger)),
                group.create_task(sample(picker, self.ledger, self.samples)),
            ]
            await work
            for task in around:
                task.cancel()

    async def becomes_calm(self, claim: Callable[[VitalSigns], bool]) -> VitalSigns:
        """The first vital signs with nothing held of which `claim` holds, too."""
        seen: list[VitalSigns] = []

        def holds() -> bool:
            seen[:] = [self.picker.vital_signs()]
            return seen[0].nothing_is_held and claim(seen[0])

        try:
            await eventually(holds, timeout_seconds=60)
        except TimeoutError:
            pytest.fail(f"never became calm: {seen}")
        return seen[0]


@contextmanager
def soaking(folder: Path, transport: str) -> Iterator[tuple[ServingPicker, ModelServers, PodChurn]]:
    """A picker whose pool consists of model servers that are ill now and then."""
    servers = ModelServers(folder, ENDPOINTS, SEED)
    servers.start()
    try:
        pods = PodChurn(servers.ports, random.Random(SEED))
        flags = (*FLAGS, f"--transport={transport}", f"--config-file={folder / 'config.yaml'}")
        replace(folder / "config.yaml", CONFIGURATIONS[0])
        with serving_picker(folder, flags, pool=pods.everyone()) as picker:
            yield picker, servers, pods
    finally:
        servers.kill()


@asynccontextmanager
async def soak(folder: Path, transport: str) -> AsyncIterator[Soak]:
    """The same with clients."""
    with soaking(folder, transport) as (picker, servers, pods):
        channels = tuple(open_channel(picker.ext_proc_port) for _ in range(4))
        rng = random.Random(SEED)
        gateway = Gateway(
            port=picker.ext_proc_port,
            channels=channels,
            rng=rng,
            ledger=Ledger(),
            is_sick=one_at_a_time(servers.ports),
        )
        try:
            yield Soak(picker, servers, pods, folder / "config.yaml", gateway, shuffled(rng))
        finally:
            for channel in channels:
                await channel.close()


def one_at_a_time(ports: list[int]) -> Callable[[str], bool]:
    """Whether a destination's model server has its turn in answering with 503."""

    def is_sick(destination: str) -> bool:
        turn = int(time.monotonic() / SICK_SECONDS) % len(ports)
        return destination.endswith(f":{ports[turn]}")

    return is_sick


@pytest.mark.soak
@pytest.mark.timeout(SECONDS * 1.5 + 600)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_whatever_happens_every_request_is_accounted_for_and_nothing_stays(
    tmp_path: Path, transport: str
) -> None:
    async with soak(tmp_path, transport) as scene:
        await scene.traffic_for(WARM_UP_SECONDS)
        warm = await scene.becomes_calm(lambda _: True)
        begin = len(scene.samples)
        await scene.traffic_for(SECONDS - WARM_UP_SECONDS)
        scene.servers.heal()
        first, last = resident_growth(scene.samples[begin:])
        report(transport, scene, warm, first, last)

        assert not scene.ledger.failures
        await scene.becomes_calm(lambda now: is_back_at(warm, now))
        assert last - first < LARGEST_GROWTH_BYTES + LARGEST_GROWTH_SHARE * first
        await eventually(lambda: everything_is_in_force(scene.picker.metrics_page()), 30)
        agrees(scene.picker.metrics_page(), scene.ledger)
        endpoints = scene.picker.pool_page()["endpoints"]
        assert [each["address"] for each in endpoints if each["inFlight"]] == []
        assert scene.picker.stop() == 0
        output = scene.picker.output()
        assert "Traceback" not in output
        assert "exception" not in output.lower()


def is_back_at(warm: VitalSigns, now: VitalSigns) -> bool:
    """Whether a picker has as much open as after its warm-up."""
    return (
        now.open_files <= warm.open_files + SPARE_FILES
        and now.tasks <= warm.tasks + SPARE_TASKS
        and now.threads <= warm.threads + SPARE_THREADS
    )


def everything_is_in_force(page: str) -> bool:
    """Whether the last versions of the files are in force, and their endpoints are there."""
    names = ("epp_pool_file_up_to_date", "epp_config_up_to_date", "epp_ready", "epp_endpoints")
    return [sum_of(page, name) for name in names] == [1, 1, 1, ENDPOINTS]


def report(transport: str, scene: Soak, warm: VitalSigns, first: int, last: int) -> None:
    """Print what was measured."""
    print(f"\n{transport}, {SECONDS:.0f} s, {RATE:g} ways a second; after the warm-up {warm}")
    print(table(scene.samples, scene.ledger))
    sizes = f"{first / MIB:.1f} MiB in the first third, {last / MIB:.1f} in the last"
    print(f"resident at least: {sizes}")
    print(scene.ledger.summary())
