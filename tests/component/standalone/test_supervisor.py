from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from pathlib import Path

import pytest

from epp.app.options import ServeOptions
from epp.datastore.snapshot import Snapshot
from epp.framework.errors import PortTaken
from epp.standalone.envoy_clusters import Address
from epp.standalone.held_stream import HeldStream
from epp.standalone.muted_stream import MutedStream
from epp.standalone.options import StandaloneOptions
from epp.standalone.supervisor import START_TRIES, Supervisor


class UnluckyPicker:
    """Finds that somebody was faster on one of its ports."""

    def __init__(self, options: ServeOptions) -> None:
        self.options = options

    async def start(self) -> object:
        raise PortTaken("--grpc-port: taken")

    async def stop(self) -> None:
        pass

    def snapshot(self) -> Snapshot:
        return Snapshot()

    def profiles(self) -> Sequence[str]:
        return ()


async def test_ports_that_are_taken_at_the_last_moment_are_replaced_a_few_times(
    tmp_path: Path,
) -> None:
    tried: list[ServeOptions] = []

    def build(options: ServeOptions) -> UnluckyPicker:
        tried.append(options)
        return UnluckyPicker(options)

    supervisor = Supervisor(
        StandaloneOptions(endpoints=(Address("127.0.0.1", 1),)),
        envoy=Path("never-started"),
        folder=tmp_path,
        build_picker=build,
        say=print,
        requests=MutedStream(io.StringIO()),
        process_log=HeldStream(io.StringIO()),
    )

    with pytest.raises(ExceptionGroup) as caught:
        await supervisor.run(asyncio.Event())

    assert caught.group_contains(PortTaken)
    assert len({options.grpc_port for options in tried}) == len(tried) == START_TRIES
