"""A whole process but for its command line: ports, pool file, health, end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from epp import __version__
from epp.app.application import Application
from epp.app.options import ServeOptions
from epp.framework.errors import ConfigError
from epp.gateway.service import SERVICE_NAME
from epp.support.revision import REVISION_VARIABLE
from tests.fakes.certificates import untrusting
from tests.fakes.eventually import eventually
from tests.fakes.pickers.applications import (
    BODY,
    get,
    health,
    options_for_tests,
    picks,
    pool_page,
    running,
)
from tests.fakes.pickers.gateway_client import gateway_client
from tests.fakes.pool_files import MANIFEST

POOL = MANIFEST.replace("{number: 8000}", "{number: 8000}, {number: 8001}")
ENDPOINTS = "endpoints: [{name: gpu-a, address: %s}]"


@pytest.fixture
def pool_file(tmp_path: Path) -> Path:
    path = tmp_path / "pool.yaml"
    write_pool(path, "FailOpen", "10.0.0.1")
    return path


def write_pool(path: Path, failure_mode: str, address: str) -> None:
    path.write_text(POOL.replace("FailClose", failure_mode) + ENDPOINTS % address)


def options(pool_file: Path, **others: object) -> ServeOptions:
    return options_for_tests(pool_file=pool_file, **others)


async def test_it_picks_among_every_target_port_of_the_pool_file(pool_file: Path) -> None:
    async with running(options(pool_file)) as (_, ports):
        assert await picks(ports.grpc) == {"10.0.0.1:8000", "10.0.0.1:8001"}


async def test_a_changed_pool_file_is_followed_without_a_restart(pool_file: Path) -> None:
    async with running(options(pool_file)) as (application, ports):
        write_pool(pool_file, "FailClose", "10.0.0.2")
        await eventually(lambda: "10.0.0.2:8000" in application.snapshot().by_address)
        assert await picks(ports.grpc) == {"10.0.0.2:8000", "10.0.0.2:8001"}
        document = await (await get(ports.admin, "/pool")).json()
        assert document["failureModeInForce"] == "FailClose"


async def test_a_request_ends_the_idleness_of_scraping(pool_file: Path) -> None:
    async with running(options(pool_file)) as (application, ports):
        pace = application._picking.data_layer._pace
        pace.is_idle = True  # as it is after ten seconds

        await picks(ports.grpc, 1)

        assert not pace.is_idle


async def test_a_body_that_stops_coming_is_not_waited_for_for_ever(pool_file: Path) -> None:
    async with (
        running(options(pool_file, body_idle_timeout=0.05)) as (_, ports),
        gateway_client(ports.grpc) as client,
    ):
        exchange = client.exchange()
        await exchange.request_headers()
        await exchange.request_body(BODY[:-1])

        assert (await exchange.answer()).status == 408


async def test_the_lateness_of_the_event_loop_is_measured(pool_file: Path) -> None:
    async with running(options(pool_file)) as (application, _):
        lag = application._metrics.event_loop_lag_seconds

        await eventually(lambda: lag.value > 0)


async def test_the_admin_port_shows_the_pool(pool_file: Path) -> None:
    async with running(options(pool_file, failure_mode="FailClose")) as (_, ports):
        document = await (await get(ports.admin, "/pool")).json()
        assert document["pool"]["name"] == "pool"
        assert document["pool"]["failureMode"] == "FailOpen"
        assert document["problems"] == []
        assert document["podsWithoutEndpoint"] == []
        assert document["failureModeInForce"] == "FailClose"
        assert document["ready"] is True
        assert [endpoint["address"] for endpoint in document["endpoints"]] == [
            "10.0.0.1:8000",
            "10.0.0.1:8001",
        ]


async def test_the_admin_port_shows_what_is_ejected(pool_file: Path) -> None:
    async with (
        running(options(pool_file)) as (_, ports),
        gateway_client(ports.grpc) as client,
    ):
        for _ in range(10):
            exchange = client.exchange()
            await exchange.post(BODY)
            bad = (await exchange.picked()).endswith(":8001")
            await exchange.response_headers({":status": "503" if bad else "200"}, end=True)
            await exchange.answer()
            await exchange.half_close()
            await exchange.status()

        page = await pool_page(ports.admin)

    assert {each["address"]: each["isEjected"] for each in page["endpoints"]} == {
        "10.0.0.1:8000": False,
        "10.0.0.1:8001": True,
    }
    assert page["problems"] == ["1 of 2 endpoints are ejected: 10.0.0.1:8001"]


async def test_the_metrics_port_is_scraped_after_a_request(pool_file: Path) -> None:
    async with running(options(pool_file)) as (_, ports):
        await picks(ports.grpc, 1)
        response = await get(ports.metrics, "/metrics")
        page = await response.text()
        assert response.content_type == "text/plain"
        assert "llm_d_epp_request_total{" in page
        assert 'llm_d_epp_ready_endpoints{name="pool"} 2' in page
        assert "epp_ready 1" in page
        assert "epp_asyncio_tasks " in page
        assert "epp_asyncio_tasks 0\n" not in page


async def test_the_metrics_port_tells_the_commit_that_an_image_was_built_of(
    pool_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REVISION_VARIABLE, "1c0ffee")

    async with running(options(pool_file)) as (_, ports):
        page = await (await get(ports.metrics, "/metrics")).text()

    assert f'llm_d_epp_info{{commit="1c0ffee",build_ref="{__version__}"}} 1\n' in page


@pytest.mark.parametrize("service", ["", "readiness", "inference-extension", SERVICE_NAME])
async def test_health_is_served_on_both_ports(pool_file: Path, service: str) -> None:
    async with running(options(pool_file)) as (_, ports):
        assert await health(ports.grpc, service) == "SERVING"
        assert await health(ports.health, service) == "SERVING"


async def test_it_is_not_ready_but_serves_while_it_drains(pool_file: Path) -> None:
    async with running(options(pool_file, drain_timeout=60.0)) as (application, ports):
        stopping = asyncio.create_task(application.stop())
        await asyncio.sleep(0)
        assert await health(ports.grpc, SERVICE_NAME) == "NOT_SERVING"
        assert await health(ports.health, "readiness") == "NOT_SERVING"
        assert await health(ports.health, "liveness") == "SERVING"
        assert len(await picks(ports.grpc, 2)) >= 1
        application.stop_at_once()
        await stopping


async def test_streams_that_outlive_the_grace_are_cut_visibly(pool_file: Path) -> None:
    async with (
        running(options(pool_file, shutdown_grace=0.05)) as (application, ports),
        gateway_client(ports.grpc) as client,
    ):
        exchange = client.exchange()
        await exchange.post(BODY)
        await exchange.picked()
        await application.stop()
        assert (await exchange.status()).name == "UNAVAILABLE"


@pytest.mark.parametrize("transport", ["native", "grpc"])
async def test_the_log_tells_where_and_on_which_transport_it_serves(
    pool_file: Path, transport: str
) -> None:
    with capture_logs() as lines:
        async with running(options(pool_file, transport=transport)) as (_, ports):
            pass

    (serving,) = (line for line in lines if line["event"] == "serving")
    assert serving["transport"] == transport
    assert serving["ext_proc_port"] == ports.grpc


async def test_a_taken_port_is_an_error_that_leaves_nothing_open(pool_file: Path) -> None:
    async with running(options(pool_file)) as (_, ports):
        second = Application(options(pool_file, grpc_port=ports.grpc))
        with pytest.raises(ConfigError, match="--grpc-port"):
            await second.start()
        await second.stop()


async def test_a_missing_pool_file_is_an_error(tmp_path: Path) -> None:
    application = Application(options(tmp_path / "none.yaml"))
    with pytest.raises(ConfigError, match=r"none\.yaml"):
        await application.start()
    await application.stop()


async def test_it_serves_tls_with_a_certificate_of_its_own(pool_file: Path) -> None:
    async with running(options(pool_file, secure_serving=True)) as (_, ports):
        reader, writer = await asyncio.open_connection("127.0.0.1", ports.grpc, ssl=untrusting())
        tls = writer.get_extra_info("ssl_object")
        assert tls.selected_alpn_protocol() == "h2"
        writer.close()
        del reader
