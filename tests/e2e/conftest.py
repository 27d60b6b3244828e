from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from epp.standalone.envoy_clusters import Address
from tests.fakes.programs.processes import PortSource, Simulator
from tests.fakes.programs.scripted_server import ScriptedServer
from tests.fakes.programs.stack import MakeStack, Stack


def assert_no_complaints(stack: Stack) -> None:
    """Whatever clients did: the picker kept to the protocol and was never given up."""
    prefix = "http.inference.ext_proc."
    stats = stack.gateway.stats(prefix)
    for name in ("spurious_msgs_received", "rejected_header_mutations", "message_timeouts"):
        assert stats[prefix + name] == 0, name
    for name in ("streams_failed", "failure_mode_allowed"):
        assert stats[prefix + name] == 0, name


@pytest.fixture(scope="session")
def ports() -> PortSource:
    """Ports for programs that can't be told to take any."""
    return PortSource()


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Address, ...]]:
    """Three simulated model servers that all tests share."""
    folder = tmp_path_factory.mktemp("simulators")
    simulators = [Simulator(f"simulator-{number}", folder) for number in (1, 2, 3)]
    try:
        for simulator in simulators:
            simulator.start()
        yield tuple(simulator.address() for simulator in simulators)
    finally:
        for simulator in simulators:
            simulator.kill()


StartSimulators = Callable[..., list[Simulator]]


@pytest.fixture
def start_simulators(tmp_path: Path) -> Iterator[StartSimulators]:
    """Starts model servers of its own for a test that loads or breaks them."""
    started: list[Simulator] = []

    def start(number: int, *flags: str) -> list[Simulator]:
        simulators = []
        for _ in range(number):
            simulators.append(Simulator(f"own-simulator-{len(started)}", tmp_path, flags))
            started.append(simulators[-1])
            simulators[-1].start()
        return simulators

    yield start
    for simulator in started:
        simulator.kill()


@pytest.fixture
def write_config(tmp_path: Path) -> Callable[[str], str]:
    """Writes an EndpointPickerConfig and returns the flag that names it."""

    def write(text: str) -> str:
        path = tmp_path / f"config-{len(list(tmp_path.iterdir()))}.yaml"
        path.write_text(text)
        return f"--config-file={path}"

    return write


@pytest.fixture
def make_stack(
    tmp_path: Path, ports: PortSource, servers: tuple[Address, ...]
) -> Iterator[MakeStack]:
    """Builds stacks of its own for a test that breaks things."""
    with ExitStack() as stacks:

        def make(**settings: Any) -> Stack:
            folder = tmp_path / f"stack-{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            values = {"servers": servers, **settings}
            return stacks.enter_context(Stack(folder, ports, **values))

        yield make


@pytest.fixture(scope="session", params=[False, True], ids=["fail close", "fail open"])
def stack(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    ports: PortSource,
    servers: tuple[Address, ...],
) -> Iterator[Stack]:
    """Envoy and one picker in each failure mode, shared by tests that leave them as they are."""
    folder = tmp_path_factory.mktemp("stack")
    with Stack(folder, ports, servers, fail_open=request.param) as running:
        yield running
        assert_no_complaints(running)


@pytest.fixture(scope="session")
def shared_model_server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server


@pytest.fixture(scope="session", params=[False, True], ids=["fail close", "fail open"])
def scripted_stack(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    ports: PortSource,
    shared_model_server: ScriptedServer,
) -> Iterator[Stack]:
    """Like `stack`, but all requests go to `model_server`."""
    folder = tmp_path_factory.mktemp("scripted-stack")
    flags = ["--enable-grpc-stream-metrics"]
    servers = [shared_model_server.address]
    with Stack(folder, ports, servers, fail_open=request.param, picker_flags=flags) as running:
        yield running
        assert_no_complaints(running)


@pytest.fixture
def model_server(shared_model_server: ScriptedServer) -> ScriptedServer:
    """The one model server of `scripted_stack`, which answers as the test says."""
    shared_model_server.forget()
    return shared_model_server
