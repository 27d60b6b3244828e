"""One standalone run: model servers, Endpoint Picker and Envoy, started and ended in order."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from epp.app.options import ServeOptions
from epp.datastore.snapshot import Snapshot
from epp.framework.errors import PortTaken
from epp.standalone.addresses import LOOPBACK, Addresses, assign_addresses
from epp.standalone.banner import Running, banner, program_here
from epp.standalone.envoy_clusters import Address
from epp.standalone.envoy_config import EnvoySettings
from epp.standalone.held_stream import HeldStream
from epp.standalone.muted_stream import MutedStream
from epp.standalone.options import StandaloneOptions
from epp.standalone.parts import (
    envoy_command,
    envoy_settings,
    picker_options,
    simulator_command,
)
from epp.standalone.pool import ModelServer, pool_document, resolve, temporary_pool_file
from epp.standalone.ports import FreePorts, starting_alone
from epp.standalone.processes import ChildProcess, Household
from epp.standalone.readiness import POLL_SECONDS, NotReady, envoy_is_live, models_through
from epp.standalone.tether import tethered

FIRST_SIMULATOR_PORT = 8101
START_SECONDS = 30.0
START_TRIES = 3
MODEL_SERVERS_SECONDS = 3.0
GRACE_SECONDS = 3.0
SETTLE_ATTEMPTS = 40


class EndpointPicker(Protocol):
    """The EPP, run in this process."""

    async def start(self) -> object:
        """Return once it serves."""

    async def stop(self) -> None:
        """End it, as its options say."""

    def snapshot(self) -> Snapshot:
        """The pool as the picker sees it."""

    def profiles(self) -> Sequence[str]:
        """What it picks by, in a line for each scheduling profile."""


class Supervisor:
    """Owns everything a standalone run consists of."""

    def __init__(
        self,
        options: StandaloneOptions,
        *,
        envoy: Path,
        folder: Path,
        build_picker: Callable[[ServeOptions], EndpointPicker],
        say: Callable[[str], None],
        requests: MutedStream,
        process_log: HeldStream,
    ) -> None:
        self._options = options
        self._envoy = envoy
        self._folder = folder
        self._build_picker = build_picker
        self._say = say
        self._requests = requests
        self._process_log = process_log
        self._show = say if options.verbose else None
        self._ports = FreePorts()
        self._household = Household(GRACE_SECONDS)
        self._files = ExitStack()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set; raises when something ends by itself."""
        with self._files:
            async with asyncio.TaskGroup() as group:
                serving = group.create_task(self._serve())
                await stop.wait()
                serving.cancel()

    def kill(self) -> None:
        """End all children at once and leave no file."""
        self._household.kill()
        self._files.close()

    async def _serve(self) -> None:
        async with self._household:
            running = await self._start()
            self._say(banner(running))
            self._process_log.release()
            self._requests.unmute()
            await asyncio.get_running_loop().create_future()

    async def _start(self) -> Running:
        async with starting_alone(START_SECONDS):
            addresses, picker = await self._start_picker(await self._pool_file())
            snapshot = picker.snapshot()
            settings = envoy_settings(self._options, snapshot, addresses)
            await self._start_envoy(settings)
            await envoy_is_live(addresses.envoy_admin, timeout_seconds=START_SECONDS)
        models, note = await self._first_answer(addresses.listener)
        await _settled(snapshot)
        return Running(
            addresses=addresses,
            servers=[(endpoint.pod_name, endpoint.address) for endpoint in snapshot.endpoints],
            pool_name=snapshot.pool.name if snapshot.pool else "",
            config_file=self._options.config_file,
            profiles=picker.profiles(),
            fail_open=settings.fail_open,
            model=models[0] if models else None,
            moved=self._ports.moved,
            note=note,
            program=program_here(Path(sys.executable), Path.cwd()),
        )

    async def _start_picker(self, pool_file: Path | None) -> tuple[Addresses, EndpointPicker]:
        """On the ports asked for, or others: a free one may be taken before it is used."""
        tries = START_TRIES
        while True:
            addresses = assign_addresses(self._options, self._ports)
            options = picker_options(self._options, pool_file, addresses)
            picker = self._build_picker(options)
            self._household.at_end(picker.stop)
            try:
                await picker.start()
            except PortTaken:
                tries -= 1
                if not tries:
                    raise
            else:
                return addresses, picker

    async def _pool_file(self) -> Path | None:
        """The file that lists the endpoints; None: the configuration names another one."""
        options = self._options
        if options.pool_file is not None:
            return options.pool_file
        if options.endpoints:
            servers = await resolve(options.endpoints)
        elif options.simulators:
            servers = await self._start_simulators()
        else:
            return None
        document = pool_document(servers, options.failure_mode or "FailClose")
        return self._files.enter_context(temporary_pool_file(document, self._folder))

    async def _start_simulators(self) -> tuple[ModelServer, ...]:
        servers = []
        children = []
        for number in range(1, self._options.simulators + 1):
            name = f"simulator-{number}"
            port = self._ports.take(name, FIRST_SIMULATOR_PORT + number - 1, LOOPBACK)
            servers.append(ModelServer(name=name, address=Address(LOOPBACK, port)))
            children.append(
                ChildProcess(
                    name,
                    simulator_command(servers[-1], self._options.model),
                    lifeline=True,
                    ready_text="simulator ready on",
                    show=self._show,
                )
            )
        await self._household.start(*children)
        try:
            async with asyncio.timeout(START_SECONDS):
                for child in children:
                    await child.ready.wait()
        except TimeoutError:
            late = ", ".join(child.name for child in children if not child.ready.is_set())
            raise NotReady(f"not ready after {START_SECONDS:g} seconds: {late}") from None
        return tuple(servers)

    async def _start_envoy(self, settings: EnvoySettings) -> None:
        command = envoy_command(self._envoy, settings)
        await self._household.start(ChildProcess("envoy", tethered(command), show=self._show))

    async def _first_answer(self, listener: Address) -> tuple[list[str], str | None]:
        if self._options.simulators:
            return await models_through(listener, timeout_seconds=START_SECONDS), None
        try:
            return await models_through(listener, timeout_seconds=MODEL_SERVERS_SECONDS), None
        except NotReady as error:
            return [], f"no model server answers yet ({error})"


async def _settled(snapshot: Snapshot) -> None:
    """Wait a little for the end of the request that was tried, when its log line is written."""
    for _ in range(SETTLE_ATTEMPTS):
        if not any(endpoint.load.in_flight for endpoint in snapshot.endpoints):
            return
        await asyncio.sleep(POLL_SECONDS)
