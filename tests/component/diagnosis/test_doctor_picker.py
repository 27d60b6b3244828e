"""The checks of a running picker, its model servers and its ports, over real sockets."""

from __future__ import annotations

import asyncio
import datetime as dt
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from epp.admin.pool_view import PoolView
from epp.app.listeners import BoundPorts
from epp.diagnosis import port_look
from epp.diagnosis.checks import endpoints
from epp.diagnosis.checks.envoy import look_at_gateway
from epp.diagnosis.checks.picker import look_at_exchange, look_at_health
from epp.diagnosis.checks.port import look_at_picker_port
from epp.diagnosis.doctor import examine
from epp.diagnosis.doctor_findings import Finding, Verdict
from epp.diagnosis.doctor_options import DoctorOptions, HostPort
from epp.diagnosis.port_look import PortLook, Speaks
from epp.gateway.health import HealthConditions
from epp.transport.certificates import CertificatePair, self_signed_pair
from tests.fakes.certificates import write_pair
from tests.fakes.doctor_cases import bad, doctor_case, verdicts
from tests.fakes.page_server import PageServer, answer, page_server
from tests.fakes.pickers.applications import (
    kubeconfig_for,
    options_for_tests,
    pool_page,
    running,
)
from tests.fakes.pool_files import MANIFEST

PAGES = Path(__file__).parents[2] / "samples/metrics"
OK, WARNING, FAULT, SKIPPED = Verdict.OK, Verdict.WARNING, Verdict.FAULT, Verdict.SKIPPED
RARELY = {"refresh_metrics_interval": 15.0, "idle_metrics_interval": 15.0}
"""Metrics that stay believed for a minute: a busy machine does not make them old."""
NO_PICKER = DoctorOptions(skip=("limits", "picker-port", "picker-admin"))


def address(port: int) -> HostPort:
    return HostPort("127.0.0.1", port)


def pool_file(folder: Path, *ports: int) -> Path:
    path = folder / "pool.yaml"
    entries = [f"- {{name: a{port}, address: 127.0.0.1, port: {port}}}\n" for port in ports]
    path.write_text(MANIFEST + "endpoints:\n" + "".join(entries))
    return path


@pytest.fixture
async def model_server() -> AsyncIterator[PageServer]:
    async with page_server() as server:
        server.reply = answer((PAGES / "vllm_v1.prom").read_bytes())
        yield server


@pytest.fixture
def file(model_server: PageServer, tmp_path: Path) -> Path:
    """A pool of the one model server."""
    return pool_file(tmp_path, model_server.port)


@asynccontextmanager
async def picker(file: Path, **flags: Any) -> AsyncIterator[BoundPorts]:
    settings = options_for_tests(pool_file=file, transport="native", **{**RARELY, **flags})
    async with running(settings) as (_, ports):
        yield ports


async def until_metrics_are_read(ports: BoundPorts) -> None:
    async with asyncio.timeout(30):
        while any(each.get("isStale") for each in (await pool_page(ports.admin))["endpoints"]):  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.01)


async def examined(
    file: Path | None, ports: BoundPorts | None, *, asked: DoctorOptions | None = None, **flags: Any
) -> list[Finding]:
    """What the doctor says, beside the loop that serves."""
    if ports is not None and asked is None:
        grpc, admin = address(ports.grpc), address(ports.admin)
        asked = DoctorOptions(grpc_address=grpc, admin=admin, skip=("limits",))
    options = options_for_tests(pool_file=file, **{"config_text": "", **flags})
    return list(await examine(options, asked or NO_PICKER, environ={}))


async def test_where_all_is_well_nothing_is_found(file: Path) -> None:
    async with picker(file, config_text="") as ports:
        await until_metrics_are_read(ports)
        findings = await examined(file, ports)

    assert bad(findings) == []
    told = verdicts(findings)
    for check in ("endpoint-ports", "endpoint-metrics", "picker-health", "picker-exchange"):
        assert told[check] is OK
    assert "vllm: 1" in str(findings)


async def test_where_no_pool_is_named_it_is_that_of_the_running_picker(
    model_server: PageServer, file: Path
) -> None:
    async with picker(file) as ports:
        asked = DoctorOptions(grpc_address=address(ports.grpc), admin=address(ports.admin))
        findings = await examined(None, ports, asked=asked)

    told = {each.check: each for each in findings}
    where = f"that of the picker at 127.0.0.1:{ports.admin}: "
    assert where in told["pool"].found
    assert told["pool"].found.endswith("FailClose")
    assert told["endpoint-metrics"].found == "read, by engine: vllm: 1"
    assert told["picker-exchange"].verdict is OK


async def test_where_no_pool_is_named_endpoints_may_be_out_of_reach_from_here(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    async def vanish(_: HostPort) -> None:
        raise port_look.Unreachable("no answer", is_refusal=False)

    monkeypatch.setattr(endpoints, "try_connection", vanish)
    async with picker(file) as ports:
        asked = DoctorOptions(admin=address(ports.admin), skip=("picker-port",))
        findings = await examined(None, ports, asked=asked)

    assert verdicts(findings)["endpoint-ports"] is SKIPPED


async def test_a_model_server_gets_no_request_but_for_its_metrics(
    model_server: PageServer, file: Path
) -> None:
    async with picker(file) as ports:
        findings = await examined(file, ports)

    assert verdicts(findings)["picker-exchange"] is OK
    assert {request.split(b" ")[1] for request in model_server.requests} == {b"/metrics"}


async def test_tls_is_spoken_as_gateways_do(file: Path) -> None:
    async with picker(file, secure_serving=True) as ports:
        findings = await examined(file, ports, secure_serving=True)

    told = verdicts(findings)
    assert told["picker-port"] is told["picker-health"] is told["picker-exchange"] is OK
    assert told["picker-certificate"] is OK
    assert "self-signed" in str(findings)


@pytest.mark.parametrize(("serves", "meant"), [(True, False), (False, True)])
async def test_a_mismatch_of_tls_is_told_and_the_rest_is_looked_at_all_the_same(
    file: Path, serves: bool, meant: bool
) -> None:
    async with picker(file, secure_serving=serves) as ports:
        findings = await examined(file, ports, secure_serving=meant)

    (found,) = bad(findings)
    names = {True: "TLS", False: "plaintext HTTP/2"}
    assert (found.check, found.verdict) == ("picker-port", FAULT)
    assert f"speaks {names[serves]}, but {names[meant]} is meant" in found.found
    assert verdicts(findings)["picker-exchange"] is OK


async def test_the_grpc_transport_is_looked_at_like_the_native_one(file: Path) -> None:
    settings = options_for_tests(pool_file=file, transport="grpc", secure_serving=True, **RARELY)
    async with running(settings) as (_, ports):
        findings = await examined(file, ports, secure_serving=True)

    assert bad(findings) == []


async def test_another_port_of_the_picker_is_recognized(file: Path) -> None:
    async with picker(file) as ports:
        metrics = DoctorOptions(grpc_address=address(ports.metrics), admin=address(ports.grpc))
        findings = await examined(file, ports, asked=metrics)
        health = DoctorOptions(grpc_address=address(ports.health), admin=address(ports.admin))
        of_health = await examined(file, ports, asked=health)

    told = verdicts(findings)
    assert told["picker-port"] is told["picker-admin"] is FAULT
    assert told["picker-health"] is told["picker-exchange"] is SKIPPED
    assert "HTTP/1.1" in str(findings)
    assert verdicts(of_health)["picker-exchange"] is FAULT
    assert "no Endpoint Picker" in str(of_health)


async def test_nobody_at_home_is_a_fault_that_names_the_address(file: Path) -> None:
    async with picker(file) as ports:
        pass

    findings = await examined(file, ports)

    told = verdicts(findings)
    assert told["picker-port"] is told["picker-admin"] is FAULT
    assert f"127.0.0.1:{ports.grpc}: connection refused" in str(findings)


async def test_a_port_that_takes_connections_and_says_nothing_may_be_a_picker_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(port_look, "TRY_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        case = doctor_case(grpc_address=address(mute.getsockname()[1]))
        (found,) = await look_at_picker_port(case)

    assert (found.verdict, case.is_mute) == (FAULT, True)
    assert found.found.endswith("takes connections, and says nothing")


async def test_a_port_that_hangs_up_is_none_of_a_picker() -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with page_server() as stranger:
        stranger.behaviour = hang_up
        (found,) = await look_at_picker_port(doctor_case(grpc_address=address(stranger.port)))

    assert found.verdict is FAULT
    assert "speaks neither" in found.found


async def test_endpoints_that_do_not_listen_are_named_beside_those_that_do(
    model_server: PageServer, tmp_path: Path
) -> None:
    async with page_server() as other:
        closed = other.port

    findings = await examined(pool_file(tmp_path, model_server.port, closed), None)

    (found,) = bad(findings)
    assert (found.check, found.verdict) == ("endpoint-ports", FAULT)
    assert f"connection refused: 127.0.0.1:{closed}" in found.found
    assert "accept connections: 1 of 2" in str(findings)


@pytest.mark.parametrize(
    ("page", "verdict", "words"),
    [
        (answer(b"", "404 Not Found"), FAULT, "HTTP status 404"),
        (answer(b"<html>hello</html>"), FAULT, "not a page of metrics"),
        (answer(b"# HELP x y\nother_metric 1\n"), FAULT, "vllm:num_requests_waiting"),
        (
            answer(b"vllm:num_requests_waiting 1\nvllm:num_requests_running 1\n"),
            WARNING,
            "vllm:kv_cache_usage_perc: missing",
        ),
        (answer((PAGES / "sglang_unified.prom").read_bytes()), OK, "sglang: 1"),
        (answer((PAGES / "trtllm_serve.prom").read_bytes()), OK, "trtllm-serve: 1"),
    ],
    ids=["no page", "no metrics", "other metrics", "a family is missing", "sglang", "trtllm"],
)
async def test_metrics_are_read_as_the_picker_reads_them(
    model_server: PageServer, file: Path, page: bytes, verdict: Verdict, words: str
) -> None:
    model_server.reply = page

    findings = await examined(file, None)

    assert verdicts(findings)["endpoint-metrics"] is verdict
    assert words in str([each for each in findings if each.check == "endpoint-metrics"])


async def test_metrics_that_do_not_come_are_told_with_the_time_they_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "_PAGE_SECONDS", 0.25)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        findings = await examined(pool_file(tmp_path, deaf.getsockname()[1]), None)

    assert "/metrics: no answer within 0.25 s" in str(bad(findings))


async def test_a_check_left_out_takes_none_with_it(model_server: PageServer, file: Path) -> None:
    model_server.reply = answer(b"", "404 Not Found")
    skip = ("pool", "config", "endpoint-ports", "limits", "picker-port", "picker-admin")

    findings = await examined(file, None, asked=DoctorOptions(skip=skip))

    assert [each.check for each in bad(findings)] == ["endpoint-metrics"]


async def test_a_picker_that_is_not_ready_says_why(file: Path) -> None:
    settings = options_for_tests(pool_file=file, transport="native", drain_timeout=60.0)
    async with running(settings) as (application, ports):
        stopping = asyncio.create_task(application.stop())
        await asyncio.sleep(0)
        findings = await examined(file, ports)
        application.stop_at_once()
        await stopping

    (found,) = [each for each in findings if each.check == "picker-health"]
    assert found.verdict is FAULT
    assert found.found == "NOT_SERVING: shutting down"


async def test_a_pool_without_endpoints_shows_in_the_trial_request(tmp_path: Path) -> None:
    file = pool_file(tmp_path)
    file.write_text(MANIFEST + "endpoints: []\n")
    async with picker(file) as ports:
        findings = await examined(file, ports)

    told = verdicts(findings)
    assert told["pool"] is told["picker-exchange"] is FAULT
    (found,) = [each for each in findings if each.check == "picker-exchange"]
    assert found.found == "the trial request was answered with 503 epp_rejected_no_endpoints"


async def test_a_picker_that_waits_for_its_pool_is_told_from_one_that_is_stuck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epp.diagnosis.gateway_call._CALL_SECONDS", 0.2)
    case = doctor_case()
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        kubeconfig = kubeconfig_for(f"http://127.0.0.1:{deaf.getsockname()[1]}", tmp_path)
        settings = options_for_tests(pool_name="pool", kubeconfig=kubeconfig)
        async with running(settings) as (_, ports):
            case.port = PortLook(address=address(ports.grpc), speaks=Speaks.PLAINTEXT)
            (found,) = await look_at_exchange(case)

    assert found.verdict is FAULT
    assert found.found == "the trial request ended with DEADLINE_EXCEEDED"
    assert "holds requests for --decision-timeout" in found.advice


async def test_a_pick_outside_the_pool_that_is_looked_at_is_a_warning(
    model_server: PageServer, file: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    async with page_server() as other:
        other.reply = model_server.reply
        looked_at = pool_file(folder, other.port)
        async with picker(file) as ports:
            findings = await examined(looked_at, ports)

    (found,) = bad(findings)
    assert (found.check, found.verdict) == ("picker-exchange", WARNING)


async def test_a_port_without_health_is_a_warning(file: Path) -> None:
    async with picker(file, health_checking=False) as ports:
        findings = await examined(file, ports)

    (found,) = bad(findings)
    assert (found.check, found.verdict) == ("picker-health", WARNING)


def pair_of(days: int) -> CertificatePair:
    return self_signed_pair(dt.datetime.now(dt.UTC) + dt.timedelta(days=days))


async def test_an_expired_certificate_is_told_and_gateways_go_on(
    file: Path, tmp_path: Path
) -> None:
    write_pair(tmp_path / "tls", pair_of(-5000))
    async with picker(file, secure_serving=True, cert_path=tmp_path / "tls") as ports:
        findings = await examined(file, ports, secure_serving=True)

    (found,) = bad(findings)
    assert (found.check, found.verdict) == ("picker-certificate", WARNING)
    assert "expired on" in found.found
    assert verdicts(findings)["picker-exchange"] is OK


async def test_a_replica_that_does_not_lead_is_no_fault(file: Path) -> None:
    reasons = HealthConditions(has_election=True, is_synced=True).not_ready_reasons()
    settings = options_for_tests(pool_file=file, transport="native", drain_timeout=60.0)
    async with running(settings) as (application, ports):
        stopping = asyncio.create_task(application.stop())
        await asyncio.sleep(0)
        case = doctor_case()
        case.port = PortLook(address=address(ports.grpc), speaks=Speaks.PLAINTEXT)
        case.pool_view = PoolView(
            pool=None,
            failure_mode_in_force="FailClose",
            ready=False,
            not_ready_reasons=reasons,
            endpoints=[],
        )
        (found,) = await look_at_health(case)
        application.stop_at_once()
        await stopping

    assert found.verdict is WARNING
    assert found.found == "NOT_SERVING: this replica is not the leader"


async def test_another_server_in_the_place_of_envoys_admin_port_is_a_fault(
    model_server: PageServer,
) -> None:
    model_server.reply = answer(b"", "404 Not Found")

    (found,) = await look_at_gateway(doctor_case(envoy_admin=address(model_server.port)))

    assert found.verdict is FAULT
    assert "/config_dump: HTTP status 404" in found.found
