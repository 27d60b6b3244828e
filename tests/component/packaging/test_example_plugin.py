"""docs/plugins.md as a stranger follows it: a checkout, an empty folder beside it, commands."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fakes.documented_steps import blocks_of, files_of, follow
from tests.fakes.eventually import eventually
from tests.fakes.page_server import PageServer, answer, page_server
from tests.fakes.pickers.gateway_client import GatewayClient, gateway_client
from tests.fakes.programs.program import Program

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/plugins.md"
PORTS = ("--grpc-port=0", "--grpc-health-port=0", "--metrics-port=0", "--admin-port=0")
FOR_TESTS = ("--bind-address=127.0.0.1", "--drain-timeout=0s", *PORTS)
METRICS = "vllm:num_requests_waiting {}\nvllm:num_requests_running 0\nvllm:kv_cache_usage_perc 0\n"
LIST_PLUGINS = """
from importlib.metadata import entry_points
print(*entry_points(group="epp.plugins").names)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """A folder in which everything was done that the page says."""

    folder: Path
    environment: Mapping[str, str]
    commands: int


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    around = tmp_path_factory.mktemp("around")
    (around / "inference-endpoint-picker").symlink_to(ROOT)
    folder = around / "acme-scorers"
    folder.mkdir()
    installed = tmp_path_factory.mktemp("installed")
    environment = {
        **os.environ,
        "PATH": f"{_programs(tmp_path_factory.mktemp('bin'))}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(installed),
        # What `pip install .` means to somebody with a virtual environment and a package index.
        "PIP_TARGET": str(installed),
        "PIP_UPGRADE": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
    }
    commands = follow(PAGE, folder, environment)
    return Walk(folder=folder, environment=environment, commands=commands)


def _programs(folder: Path) -> Path:
    """`python`, `pip` and `epp`, whatever the surroundings call them."""
    for name, module in (("python", ""), ("pip", " -m pip"), ("epp", " -m epp")):
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}"{module} "$@"\n')
        path.chmod(0o755)
    return folder


def test_every_command_prints_what_the_page_says(walk: Walk) -> None:
    assert walk.commands >= 11


def test_the_library_page_installs_the_picker_as_the_plugins_page_does() -> None:
    install = "pip install ../inference-endpoint-picker"

    assert f"`{install}`" in (ROOT / "docs/library.md").read_text()
    assert install.replace("install ", "install -q ") in PAGE.read_text()


def test_the_image_holds_the_plugins_beside_the_picker(walk: Walk, tmp_path: Path) -> None:
    runtime = tmp_path / "opt/epp"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(runtime)], check=True)
    steps = [line.split(" ", 1) for line in files_of(PAGE)["Dockerfile"].splitlines()]
    (install,) = [text for step, text in steps if step == "RUN"]
    elsewhere = ("PIP_TARGET", "PYTHONPATH")
    environment = {name: text for name, text in walk.environment.items() if name not in elsewhere}

    install = install.replace("/opt/epp", str(runtime)).replace("/tmp/dist", "dist")
    subprocess.run(install, shell=True, cwd=walk.folder, env=environment, check=True)

    found = subprocess.run(
        [runtime / "bin/python", "-c", LIST_PLUGINS], env={}, check=True, capture_output=True
    )
    assert sorted(found.stdout.decode().split()) == [
        "least-waiting-scorer",
        "recent-failures-scorer",
        "recent-failures-tracker",
    ]
    users = [text for step, text in steps if step == "USER"]
    assert f"USER {users[-1]}" in (ROOT / "Dockerfile").read_text()


async def test_the_picks_of_a_served_pool_follow_the_plugins(walk: Walk, tmp_path: Path) -> None:
    folder = shutil.copytree(walk.folder, tmp_path / "serving")
    async with (
        page_server() as idle,
        page_server() as busy,
        serving(folder, walk.environment, idle, busy) as client,
    ):
        before = [await picked(client, status=status) for status in ("200", "200", "200", "503")]
        after = [await picked(client, status="200") for _ in range(3)]

    assert before == [idle.port] * 4
    assert after == [busy.port] * 3


@asynccontextmanager
async def serving(
    folder: Path, environment: Mapping[str, str], idle: PageServer, busy: PageServer
) -> AsyncIterator[GatewayClient]:
    """`epp serve` as the page starts it, once it has heard of both model servers."""
    idle.reply, busy.reply = (answer(METRICS.format(n).encode()) for n in (0, 20))
    pool = files_of(PAGE)["pool.yaml"].replace("8001", str(idle.port))
    (folder / "pool.yaml").write_text(pool.replace("8002", str(busy.port)))
    (command,) = [
        line
        for block in blocks_of(PAGE)
        for line in block.text.splitlines()
        if line.startswith("epp serve ")
    ]
    paths = [f"{name}={environment[name]}" for name in ("PYTHONPATH", "PATH")]
    program = Program(
        "epp",
        ["env", *paths, *shlex.split(command), *FOR_TESTS],
        folder / "epp.log",
        folder=folder,
    )
    program.start()
    try:
        told = json.loads(await asyncio.to_thread(program.wait_for_line, '"serving"'))
        # One request at a time: who is asked again has been understood.
        await eventually(lambda: min(len(idle.requests), len(busy.requests)) > 1)
        async with gateway_client(told["ext_proc_port"]) as client:
            yield client
    finally:
        program.kill()


async def picked(client: GatewayClient, *, status: str) -> int:
    """Port of the endpoint for a request, which then answers with `status`."""
    exchange = client.exchange()
    await exchange.post(b'{"model":"m","prompt":"a"}')
    destination = await exchange.picked()
    await exchange.response_headers({":status": status}, end=True)
    await exchange.answer()
    return int(destination.rpartition(":")[2])
