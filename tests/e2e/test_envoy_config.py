"""Envoy from the file that `epp envoy-config` prints, in front of pickers started by hand."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from epp.app.flag_kinds import FailureModeName
from epp.standalone.envoy_clusters import Address
from epp.standalone.pool import ModelServer, pool_document
from tests.fakes.authorities import Authority
from tests.fakes.certificates import write_pair
from tests.fakes.programs.processes import EPP, LOOPBACK, MODEL, Gateway, Picker, PortSource
from tests.fakes.programs.program import wait_until

pytestmark = pytest.mark.e2e

SERVED = "x-gateway-destination-endpoint-served"
FALLBACK = "cluster.pool_fallback.upstream_rq_total"
PLAINTEXT = "--secure-serving=false"
TLS13_ONLY = ("--secure-serving", "--transport=native", "--tls-min-version=VersionTLS13")

StartPicker = Callable[..., Picker]
RunPrinted = Callable[..., Gateway]


@pytest.fixture
def write_pool(tmp_path: Path, servers: tuple[Address, ...]) -> Callable[[FailureModeName], Path]:
    """Writes a pool of two model servers, for pickers and for the command."""

    def write(mode: FailureModeName) -> Path:
        named = [
            ModelServer(name=f"server-{number}", address=address)
            for number, address in enumerate(servers[:2])
        ]
        path = tmp_path / "pool.yaml"
        path.write_text(pool_document(named, mode))
        return path

    return write


@pytest.fixture
def start_picker(tmp_path: Path, ports: PortSource) -> Iterator[StartPicker]:
    """Starts pickers, and returns each once it serves."""
    started: list[Picker] = []

    def start(pool_file: Path, *flags: str) -> Picker:
        name = f"epp-{len(started)}"
        picker = Picker(name, tmp_path, [f"--pool-file={pool_file}"], ports, flags)
        started.append(picker)
        picker.start()
        picker.wait_for_line('"serving"')
        return picker

    yield start
    for picker in started:
        picker.kill()


@pytest.fixture
def run_printed(tmp_path: Path, ports: PortSource) -> Iterator[RunPrinted]:
    """Prints a bootstrap and runs Envoy from it, until so many pickers are healthy."""
    started: list[Gateway] = []

    def run(*flags: str, pickers: int = 1) -> Gateway:
        listener, admin = Address(LOOPBACK, ports.take()), Address(LOOPBACK, ports.take())
        file = tmp_path / "envoy.yaml"
        command = [*EPP, "envoy-config", f"--listen-address={LOOPBACK}", f"--port={listener.port}"]
        command += [f"--envoy-admin-port={admin.port}", *flags]
        file.write_bytes(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        gateway = Gateway("envoy", tmp_path, ["-c", str(file)], listener=listener, admin=admin)
        started.append(gateway)
        gateway.start()
        wait_until(gateway.is_live, "Envoy", gateway)
        wait_until(lambda: gateway.healthy_pickers() == pickers, f"{pickers} pickers", gateway)
        return gateway

    yield run
    for gateway in started:
        gateway.kill()


def complete(gateway: Gateway) -> httpx.Response:
    body = {"model": MODEL, "prompt": "Hello", "max_tokens": 1}
    return httpx.post(f"{gateway.url}/v1/completions", json=body)


def test_fail_close_answers_with_a_pick_and_without_a_picker_with_503(
    write_pool: Callable[[FailureModeName], Path],
    start_picker: StartPicker,
    run_printed: RunPrinted,
    servers: tuple[Address, ...],
) -> None:
    pool_file = write_pool("FailClose")
    picker = start_picker(pool_file)
    gateway = run_printed(f"--pool-file={pool_file}", f"--epp={picker.ext_proc}", PLAINTEXT)

    before = complete(gateway)
    picker.kill()
    during = complete(gateway)

    assert before.status_code == 200
    assert before.headers[SERVED] in map(str, servers[:2])
    assert during.status_code == 503
    assert '"code":503' in gateway.wait_for_line('"details":"ext_proc_error')


def test_fail_open_answers_with_a_pick_and_without_a_picker_from_the_pool(
    write_pool: Callable[[FailureModeName], Path],
    start_picker: StartPicker,
    run_printed: RunPrinted,
    servers: tuple[Address, ...],
) -> None:
    pool_file = write_pool("FailOpen")
    picker = start_picker(pool_file)
    gateway = run_printed(f"--pool-file={pool_file}", f"--epp={picker.ext_proc}", PLAINTEXT)

    before = complete(gateway)
    picker.kill()
    during = [complete(gateway) for _ in range(5)]

    assert before.status_code == 200
    assert before.headers[SERVED] in map(str, servers[:2])
    assert [answer.status_code for answer in during] == [200] * 5
    assert [answer for answer in during if SERVED in answer.headers] == []
    assert gateway.stats(FALLBACK)[FALLBACK] == 5


@pytest.mark.parametrize(
    ("issuer", "names", "status"),
    [
        ("ours", ["epp.models.svc"], 200),
        ("ours", ["epp.others.svc"], 503),
        ("another", ["epp.models.svc"], 503),
    ],
    ids=["known", "another name", "another CA"],
)
def test_requests_go_to_a_picker_whose_certificate_is_known_and_to_no_other(
    write_pool: Callable[[FailureModeName], Path],
    start_picker: StartPicker,
    run_printed: RunPrinted,
    tmp_path: Path,
    issuer: str,
    names: list[str],
    status: int,
) -> None:
    authorities = {name: Authority(name) for name in ("ours", "another")}
    write_pair(tmp_path / "certs", authorities[issuer].issue(*names))
    (tmp_path / "ca.crt").write_bytes(authorities["ours"].pem)
    certificate = ("--secure-serving", f"--cert-path={tmp_path / 'certs'}")
    picker = start_picker(write_pool("FailClose"), *certificate)
    gateway = run_printed(
        f"--epp={picker.ext_proc}",
        f"--epp-ca-file={tmp_path / 'ca.crt'}",
        "--epp-server-name=epp.models.svc",
        pickers=int(status == 200),
    )

    assert complete(gateway).status_code == status


def test_traffic_goes_on_with_the_replica_that_is_left(
    write_pool: Callable[[FailureModeName], Path],
    start_picker: StartPicker,
    run_printed: RunPrinted,
    servers: tuple[Address, ...],
) -> None:
    """The pickers are behind a name, and their TLS is what `epp serve` can be told to insist on."""
    pool_file = write_pool("FailClose")
    pickers = [start_picker(pool_file, *TLS13_ONLY) for _ in range(2)]
    names = ",".join(f"localhost:{picker.ext_proc.port}" for picker in pickers)
    gateway = run_printed(f"--epp={names}", "--response-bodies=false", pickers=2)

    before = complete(gateway)
    pickers[0].kill()
    wait_until(lambda: gateway.healthy_pickers() == 1, "the loss is noticed", gateway)
    during = [complete(gateway) for _ in range(5)]

    for answer in (before, *during):
        assert answer.status_code == 200
        assert answer.headers[SERVED] in map(str, servers[:2])
