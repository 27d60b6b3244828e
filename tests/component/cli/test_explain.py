"""`epp explain` against a running picker, through its ports."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from epp.admin.http_port import HttpPort
from epp.app.listeners import BoundPorts
from epp.cli.main import main
from tests.fakes.pickers.applications import get, options_for_tests, running
from tests.fakes.pickers.gateway_client import gateway_client
from tests.fakes.pool_files import MANIFEST

POOL = (
    MANIFEST
    + """\
endpoints:
- {name: gpu-a, address: 10.0.0.1, port: 8000, labels: {tier: gold}}
- {name: gpu-b, address: 10.0.0.2, port: 8000}
"""
)
CONFIG = """
plugins:
- {type: active-request-scorer}
- {type: label-selector-filter, name: gold, parameters: {matchLabels: {tier: gold}}}
- {type: max-score-picker}
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: gold}
  - {pluginRef: active-request-scorer, weight: 2}
  - {pluginRef: max-score-picker}
dataLayer: {injectDefaults: false}
"""
CHAT = {"model": "m", "messages": [{"role": "user", "content": "a secret"}]}


@pytest.fixture
async def ports(tmp_path: Path) -> AsyncIterator[BoundPorts]:
    pool_file = tmp_path / "pool.yaml"
    pool_file.write_text(POOL)
    settings = options_for_tests(pool_file=pool_file, config_text=CONFIG, decision_log_size=4)
    async with running(settings) as (_, ports):
        yield ports


@pytest.fixture
def body(tmp_path: Path) -> str:
    path = tmp_path / "body.json"
    path.write_text(json.dumps(CHAT))
    return str(path)


async def explain(ports: BoundPorts, *arguments: str) -> int:
    """Run the command beside the loop that serves it."""
    admin = f"--admin=127.0.0.1:{ports.admin}"
    return await asyncio.to_thread(main, ["explain", admin, *arguments])


async def decide(
    ports: BoundPorts, request_id: str, body: bytes = b'{"model":"m","prompt":"a"}'
) -> None:
    """A request of a gateway, up to its answer."""
    async with gateway_client(ports.grpc) as client:
        exchange = client.exchange()
        await exchange.post(body, headers={"x-request-id": request_id})
        await exchange.answer()


async def attempts(ports: BoundPorts) -> float:
    """How often something was scheduled, as it is counted."""
    page = await (await get(ports.metrics, "/metrics")).text()
    lines = page.splitlines()
    return sum(
        float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith("llm_d_epp_scheduler_attempts_total{")
    )


async def kept(ports: BoundPorts) -> int:
    """How many decisions the picker remembers."""
    page: dict[str, int] = await (await get(ports.admin, "/decisions")).json()
    return page["kept"]


async def test_a_decided_request_is_explained(
    ports: BoundPorts, capsys: pytest.CaptureFixture[str]
) -> None:
    await decide(ports, "abc")

    assert await explain(ports, "abc") == 0

    output = capsys.readouterr().out
    assert "request      abc\n" in output
    assert "endpoint     10.0.0.1:8000\n" in output
    assert "gold    2       1      10.0.0.2:8000\n" in output
    assert "10.0.0.1:8000  2.000  1.000 -> 2.000            picked\n" in output


async def test_the_last_decisions_are_listed_rejections_too(
    ports: BoundPorts, capsys: pytest.CaptureFixture[str]
) -> None:
    await decide(ports, "good")
    await decide(ports, "bad", b"{")

    assert await explain(ports) == 0

    lines = capsys.readouterr().out.splitlines()
    [heading, bad, good] = [line.split()[1] for line in lines[-5:-2]]
    assert (heading, bad, good) == ("REQUEST", "bad", "good")
    assert lines[-1] == "2 of 2 kept; epp explain REQUEST tells all of one"


async def test_an_id_that_is_not_known_is_a_failure(
    ports: BoundPorts, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(6):
        await decide(ports, f"r{number}")

    assert await explain(ports, "r0") == 1

    assert capsys.readouterr().err == (
        "epp explain: request 'r0' is not among the last 4 decisions of this replica"
        " (--decision-log-size 4)\n"
    )


async def test_a_body_is_explained_without_traffic(
    ports: BoundPorts, body: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await decide(ports, "abc")

    assert await explain(ports, "--body", body, "--header", "x-request-id=dry") == 0

    output = capsys.readouterr().out
    assert "request      dry (dry run: nothing was sent, reserved, counted or learnt)\n" in output
    assert "path         /v1/chat/completions\n" in output
    assert "endpoint     10.0.0.1:8000\n" in output
    assert "secret" not in output
    assert (await attempts(ports), await kept(ports)) == (1.0, 1)


async def test_json_is_for_scripts(
    ports: BoundPorts, body: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await decide(ports, "abc")
    capsys.readouterr()

    assert await explain(ports, "--output=json", "--body", body, "--subset", "10.0.0.2") == 0
    dry_run = json.loads(capsys.readouterr().out)
    assert await explain(ports, "--output=json", "abc") == 0
    [decision] = json.loads(capsys.readouterr().out)
    assert await explain(ports, "--output=json") == 0
    listed = json.loads(capsys.readouterr().out)

    assert (dry_run["rejection"]["status"], dry_run["isDryRun"]) == (429, True)
    assert decision["endpoints"] == ["10.0.0.1:8000"]
    assert [each["requestId"] for each in listed["decisions"]] == ["abc"]


async def test_a_body_may_come_by_standard_input_and_compressed(
    ports: BoundPorts, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = io.TextIOWrapper(io.BytesIO(gzip.compress(json.dumps(CHAT).encode())))
    monkeypatch.setattr(sys, "stdin", given)

    assert await explain(ports, "--body=-", "--header", "content-encoding=gzip") == 0

    assert "model        m\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["abc", "--body=x"], "REQUEST and --body exclude each other; give one of them"),
        (["--header=a=b"], "--header has no effect without --body"),
        (["--subset=10.0.0.1"], "--subset has no effect without --body"),
        (["--last=0"], "--last: '0' is out of range; allowed: whole numbers from 1"),
        (["--last=x"], "--last: 'x' is not a number; allowed: whole numbers from 1"),
        (["--body=x", "--header=a"], "'a' is no header; allowed: NAME=VALUE"),
        (["--body=x", "--header=a b=c"], "--header: 'a b' is no name of a header; allowed: up to"),
        (["--body=x", "--path=v1"], "--path: 'v1' is no path; allowed: / and up to 8191 letters"),
        (["--body=/nowhere"], "--body /nowhere: can't be read: No such file or directory"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", *arguments]) == 2

    assert told in capsys.readouterr().err


def test_a_body_that_is_too_large_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate((8 << 20) + 1)

    assert main(["explain", "--body", str(path)]) == 2

    assert "is larger than the 8388608 bytes allowed" in capsys.readouterr().err


async def test_another_servers_port_is_told_from_an_admin_port(
    capsys: pytest.CaptureFixture[str],
) -> None:
    port = HttpPort(web.Application(), "127.0.0.1", 0, port_flag="")
    number = await port.start()

    code = await asyncio.to_thread(main, ["explain", "--admin", f"127.0.0.1:{number}"])

    await port.stop()
    assert code == 1
    assert f"127.0.0.1:{number} answers 404, but is not the admin port" in capsys.readouterr().err
