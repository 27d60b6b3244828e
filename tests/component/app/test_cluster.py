"""A whole process beside an API server: pool and pods come and go, a leader is elected."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from epp.app.application import Application
from epp.app.happenings import Watchman
from epp.app.listeners import BoundPorts
from epp.app.options import ServeOptions
from epp.datastore.inference_objective import GROUPS
from epp.framework.errors import ConfigError
from epp.gateway.service import SERVICE_NAME
from epp.kubernetes.events import PoolEventWriter
from epp.kubernetes.leader_election import ElectionTiming
from tests.fakes.eventually import eventually
from tests.fakes.kubernetes.api import FakeKubeApi
from tests.fakes.kubernetes.objects import Manifest, inference_pool, pod, pod_status
from tests.fakes.kubernetes.store import Target
from tests.fakes.pickers.applications import (
    BODY,
    TAKING_TURNS,
    answer,
    health,
    kubeconfig_for,
    options_for_tests,
    picks,
    pool_page,
    running,
)
from tests.fakes.pickers.applications import get as get_page
from tests.fakes.pickers.gateway_client import gateway_client
from tests.fakes.programs.program import Program

LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "epp-models-pool.llm-d.ai", "namespace": "models"},
}
QUICK = ElectionTiming(lease=15, renew_deadline=10, retry=0.01)


@pytest.fixture
def options(kube: FakeKubeApi, tmp_path: Path) -> ServeOptions:
    return options_for_tests(
        pool_name="pool",
        pool_namespace="models",
        kubeconfig=kubeconfig_for(kube.url, tmp_path),
        decision_timeout=0.2,
    )


async def add_pod(kube: FakeKubeApi, name: str, ip: str, **changes: Any) -> Manifest:
    manifest = pod(name)
    await kube.create(manifest)
    await kube.patch(manifest, pod_status(ip, **changes), "/status")
    return manifest


async def ready(ports: BoundPorts) -> str:
    return await health(ports.health, SERVICE_NAME)


async def until_synced(application: Application) -> None:
    await eventually(lambda: application.snapshot().synced)


async def test_a_pool_that_is_created_later_makes_it_ready(
    kube: FakeKubeApi, options: ServeOptions
) -> None:
    async with running(options) as (application, ports):
        await eventually(lambda: bool(application.views.pool().problems))
        page = await pool_page(ports.admin)
        assert page["problems"] == ["InferencePool models/pool does not exist"]
        assert page["notReadyReasons"] == ["the pool has not been read yet"]
        assert await ready(ports) == "NOT_SERVING"
        assert await health(ports.health, "liveness") == "SERVING"
        rejected = await answer(ports.grpc)
        assert (rejected.status, rejected.details) == (503, "epp_not_synced")

        await add_pod(kube, "a", "10.0.0.1")
        await kube.create(inference_pool(8000, 8001))
        await until_synced(application)

        assert await ready(ports) == "SERVING"
        assert await picks(ports.grpc) == {"10.0.0.1:8000", "10.0.0.1:8001"}
        assert (await pool_page(ports.admin))["problems"] == []


async def test_scrapes_take_a_token_unless_said_otherwise(
    kube: FakeKubeApi, options: ServeOptions
) -> None:
    kube.users = {"scraper": "prometheus"}
    kube.path_rights = {("prometheus", "get", "/metrics")}
    async with (
        running(replace(options, metrics_endpoint_auth=None)) as (_, ports),
        aiohttp.ClientSession(f"http://127.0.0.1:{ports.metrics}") as scraper,
    ):
        statuses = []
        for token in ("scraper", "other"):
            headers = {"Authorization": f"Bearer {token}"}
            async with scraper.get("/metrics", headers=headers) as response:
                statuses.append(response.status)

        assert statuses == [200, 401]
        assert (await get_page(ports.metrics, "/debug/plugins/state")).status == 401
        assert (await get_page(ports.metrics, "/healthz")).status == 200
        assert await health(ports.health, "liveness") == "SERVING"


def listing_endpoints(folder: Path) -> str:
    """A configuration that says where the endpoints are, whatever a cluster says."""
    listed = folder / "endpoints.yaml"
    listed.write_text("endpoints: [{name: a, address: 10.0.0.1, port: 8000}]")
    discovery = f"{{type: file-discovery, name: f, parameters: {{path: {listed}}}}}"
    return TAKING_TURNS.replace("[{type: max", f"[{discovery}, {{type: max").replace(
        "dataLayer: {", "dataLayer: {discovery: {pluginRef: f}, "
    )


async def test_nobody_is_elected_where_the_configuration_lists_the_endpoints(
    options: ServeOptions, tmp_path: Path
) -> None:
    elects = replace(
        options, config_text=listing_endpoints(tmp_path), ha_enable_leader_election=True
    )

    with capture_logs() as logs:
        async with running(elects) as (_, ports):
            is_ready = await ready(ports)

    assert is_ready == "SERVING"
    told = [line["event"] for line in logs]
    assert "--ha-enable-leader-election has no effect with dataLayer.discovery" in told


async def test_tokens_are_not_promised_where_the_configuration_lists_the_endpoints(
    options: ServeOptions, tmp_path: Path
) -> None:
    config = listing_endpoints(tmp_path)

    with pytest.raises(ConfigError, match="--metrics-endpoint-auth=true takes an API server"):
        await Application(replace(options, config_text=config, metrics_endpoint_auth=True)).start()


async def test_on_request_what_happens_to_the_pool_is_told_in_events(
    kube: FakeKubeApi, options: ServeOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epp.app.cluster.PoolEventWriter", partial(PoolEventWriter, pause=0))
    monkeypatch.setattr("epp.app.application.Watchman", partial(Watchman, pause=0.01))
    manifest = inference_pool(8000)
    await kube.create(manifest)

    async def until_told(reason: str) -> None:
        target = Target(group="", version="v1", namespace="models", resource="events")
        await eventually(lambda: reason in [each["reason"] for each in kube.store.objects(target)])

    async with running(replace(options, emit_events=True)):
        await until_told("NoReadyEndpoints")
        await add_pod(kube, "a", "10.0.0.1")
        await until_told("EndpointsReady")
        await kube.patch(manifest, {"spec": {"targetPorts": [{"number": 0}]}})
        await until_told("PoolRejected")


async def test_without_the_flag_there_are_no_events(
    kube: FakeKubeApi, options: ServeOptions
) -> None:
    await kube.create(inference_pool(8000))
    async with running(options) as (application, _):
        await until_synced(application)

    assert not [seen for seen in kube.seen if seen.resource == "events"]


async def test_edits_of_the_pool_are_in_force_without_a_restart(
    kube: FakeKubeApi, options: ServeOptions
) -> None:
    manifest = inference_pool(8000)
    await kube.create(manifest)
    await add_pod(kube, "a", "10.0.0.1")
    async with running(options) as (application, ports):
        await until_synced(application)
        assert (await pool_page(ports.admin))["failureModeInForce"] == "FailClose"

        change = {
            "endpointPickerRef": {"failureMode": "FailOpen"},
            "targetPorts": [{"number": 9000}],
        }
        await kube.patch(manifest, {"spec": change})
        await eventually(lambda: "10.0.0.1:9000" in application.snapshot().by_address)

        assert (await pool_page(ports.admin))["failureModeInForce"] == "FailOpen"
        assert await picks(ports.grpc) == {"10.0.0.1:9000"}


async def test_without_its_pool_it_is_not_ready_and_with_the_next_one_it_is_again(
    kube: FakeKubeApi, options: ServeOptions
) -> None:
    manifest = inference_pool(8000)
    await kube.create(manifest)
    await add_pod(kube, "a", "10.0.0.1")
    async with running(options) as (application, ports):
        await until_synced(application)

        await kube.delete(manifest)
        await eventually(lambda: application.snapshot().pool is None)

        assert await ready(ports) == "NOT_SERVING"
        assert await health(ports.health, "liveness") == "SERVING"
        assert (await answer(ports.grpc)).details == "epp_rejected_no_endpoints"
        page = await pool_page(ports.admin)
        assert page["pool"] is None
        assert page["notReadyReasons"] == ["the pool is gone"]
        metrics = await (await get_page(ports.metrics, "/metrics")).text()
        assert 'epp_pool_problems_total{kind="gone"} 1' in metrics
        assert 'llm_d_epp_ready_endpoints{name="pool"} 0' in metrics
        assert "epp_ready 0" in metrics

        await kube.create(manifest)
        await until_synced(application)

        assert await ready(ports) == "SERVING"
        assert await picks(ports.grpc) == {"10.0.0.1:8000"}


async def test_an_api_server_that_comes_later_makes_it_ready(
    kube: FakeKubeApi, options: ServeOptions
) -> None:
    await kube.create(inference_pool(8000))
    await add_pod(kube, "a", "10.0.0.1")
    await kube.kill()
    async with running(options) as (application, ports):
        assert await ready(ports) == "NOT_SERVING"
        assert await health(ports.health, "liveness") == "SERVING"
        metrics = await (await get_page(ports.metrics, "/metrics")).text()
        assert 'llm_d_epp_ready_endpoints{name="pool"} 0' in metrics

        await kube.start()
        await until_synced(application)

        assert await ready(ports) == "SERVING"
        assert await picks(ports.grpc) == {"10.0.0.1:8000"}


async def test_a_missing_right_is_a_problem_that_is_shown_until_it_is_granted(
    kube: FakeKubeApi, options: ServeOptions
) -> None:
    await kube.create(inference_pool(8000))
    kube.forbid("watch", "pods")
    kube.forbid("list", "pods")
    async with running(options) as (application, ports):
        await eventually(lambda: bool(application.views.pool().problems))
        page = await pool_page(ports.admin)
        assert page["notReadyReasons"] == ["the pool has not been read yet"]
        assert "pods is forbidden" in page["problems"][0]

        kube.allow("watch", "pods")
        kube.allow("list", "pods")
        await until_synced(application)

        assert (await pool_page(ports.admin))["problems"] == []


async def test_without_the_api_server_it_goes_on_with_what_it_knows(
    kube: FakeKubeApi, options: ServeOptions
) -> None:
    await kube.create(inference_pool(8000))
    await add_pod(kube, "a", "10.0.0.1")
    async with running(options) as (application, ports):
        await until_synced(application)
        await kube.kill()
        await eventually(lambda: bool(application.views.pool().problems))

        assert await ready(ports) == "SERVING"
        assert await picks(ports.grpc) == {"10.0.0.1:8000"}


async def test_pods_without_an_endpoint_are_shown_with_the_reason_and_counted(
    kube: FakeKubeApi, options: ServeOptions
) -> None:
    await kube.create(inference_pool(8000))
    await add_pod(kube, "a", "10.0.0.1")
    await add_pod(kube, "b", "10.0.0.2", ready=False)
    async with running(options) as (application, ports):
        await until_synced(application)

        page = await pool_page(ports.admin)
        assert page["podsWithoutEndpoint"] == [
            {"name": "b", "namespace": "models", "reason": "not ready"}
        ]
        metrics = await (await get_page(ports.metrics, "/metrics")).text()
        assert "epp_unmatched_pods 1" in metrics
        assert 'epp_informer_synced{resource="pods"} 1' in metrics
        assert 'epp_informer_last_contact_seconds{resource="inferencepools"} ' in metrics


async def test_an_invalid_pool_is_a_problem_that_is_shown_while_the_last_one_serves(
    kube: FakeKubeApi, options: ServeOptions
) -> None:
    manifest = inference_pool(8000)
    await kube.create(manifest)
    await add_pod(kube, "a", "10.0.0.1")
    async with running(options) as (application, ports):
        await until_synced(application)

        await kube.patch(manifest, {"spec": {"targetPorts": [{"number": 0}]}})
        await eventually(lambda: bool(application.views.pool().problems))

        page = await pool_page(ports.admin)
        assert "spec.targetPorts[0].number" in page["problems"][0]
        assert page["ready"] is True
        assert await picks(ports.grpc) == {"10.0.0.1:8000"}
        metrics = await (await get_page(ports.metrics, "/metrics")).text()
        assert 'epp_pool_problems_total{kind="invalid"} 1' in metrics


@pytest.mark.parametrize("group", GROUPS)
async def test_objectives_of_either_group_give_requests_their_priority(
    kube: FakeKubeApi, options: ServeOptions, group: str
) -> None:
    """Pitfall 39."""
    kube.restore_definition(group, "inferenceobjectives")
    await kube.create(inference_pool(8000))
    await add_pod(kube, "a", "10.0.0.1")
    await kube.create(
        {
            "apiVersion": f"{group}/v1alpha2",
            "kind": "InferenceObjective",
            "metadata": {"name": "gold", "namespace": "models"},
            "spec": {
                "priority": 7,
                "poolRef": {"group": "inference.networking.k8s.io", "name": "pool"},
            },
        }
    )
    series = "llm_d_epp_request_total{"

    async with running(options) as (application, ports), gateway_client(ports.grpc) as client:
        await until_synced(application)

        async def priorities() -> set[str]:
            exchange = client.exchange()
            await exchange.post(BODY, {"x-llm-d-inference-objective": "gold"})
            await exchange.picked()
            exchange.cancel()
            page = await (await get_page(ports.metrics, "/metrics")).text()
            lines = [line for line in page.splitlines() if line.startswith(series)]
            return {line.partition('priority="')[2].partition('"')[0] for line in lines}

        async with asyncio.timeout(10):
            while "7" not in await priorities():
                pass


@pytest.mark.parametrize("flag", [None, "FailOpen"])
async def test_a_selector_stands_for_a_pool(
    kube: FakeKubeApi, tmp_path: Path, flag: str | None
) -> None:
    await add_pod(kube, "a", "10.0.0.1")
    await kube.create(pod("other", {"app": "other"}))
    options = options_for_tests(
        endpoint_selector="app in (llama)",
        endpoint_target_ports=(8000, 8001),
        pool_namespace="models",
        pod_name="my-epp-7c9d8f6b5d-x2x4z",
        kubeconfig=kubeconfig_for(kube.url, tmp_path),
        failure_mode=flag,
    )
    async with running(options) as (application, ports):
        await until_synced(application)

        assert await picks(ports.grpc) == {"10.0.0.1:8000", "10.0.0.1:8001"}
        page = await pool_page(ports.admin)
        assert page["pool"]["name"] == "my-epp"
        assert page["failureModeInForce"] == (flag or "FailClose")
        assert kube.requests("list", "inferencepools") == []


def electing(options: ServeOptions, **others: object) -> ServeOptions:
    values = {name: getattr(options, name) for name in ("kubeconfig", "decision_timeout")}
    return options_for_tests(
        pool_name="pool",
        pool_namespace="models",
        ha_enable_leader_election=True,
        **values,
        **others,
    )


async def test_of_two_replicas_the_leader_is_ready_and_hands_over_before_it_drains(
    kube: FakeKubeApi, options: ServeOptions
) -> None:
    await kube.create(inference_pool(8000))
    await add_pod(kube, "a", "10.0.0.1")
    slow_to_go = electing(options, drain_timeout=60.0)
    async with running(slow_to_go, election_timing=QUICK) as (first, first_ports):
        await eventually(lambda: first.views.pool().ready)
        async with running(electing(options), election_timing=QUICK) as (second, second_ports):
            await until_synced(second)
            page = await pool_page(second_ports.admin)
            assert page["notReadyReasons"] == ["this replica is not the leader"]
            assert await health(second_ports.health, "stranger") == "SERVICE_UNKNOWN"
            assert await picks(second_ports.grpc) == {"10.0.0.1:8000"}
            metrics = await (await get_page(second_ports.metrics, "/metrics")).text()
            assert "epp_leader 0" in metrics

            stopping = asyncio.create_task(first.stop())
            await eventually(lambda: second.views.pool().ready)

            assert not stopping.done()
            assert await ready(first_ports) == "NOT_SERVING"
            assert await ready(second_ports) == "SERVING"
            first.stop_at_once()
            await stopping


async def test_a_replica_without_a_pool_leaves_the_lease_to_others(
    kube: FakeKubeApi, options: ServeOptions
) -> None:
    async with running(electing(options), election_timing=QUICK) as (application, _):
        await eventually(lambda: bool(application.views.pool().problems))
        assert kube.requests("create", "leases") == []

        await kube.create(inference_pool(8000))
        await eventually(lambda: application.views.pool().ready)

        assert len(kube.requests("create", "leases")) == 1


async def test_a_lost_lease_is_told_and_makes_it_not_ready(
    kube: FakeKubeApi, options: ServeOptions
) -> None:
    await kube.create(inference_pool(8000))
    lost = asyncio.Event()
    async with running(electing(options), election_timing=QUICK, on_lost_lease=lost.set) as (
        application,
        ports,
    ):
        await eventually(lambda: application.views.pool().ready)
        assert not application.has_lost_lease

        await take_lease(kube)
        await lost.wait()

        assert application.has_lost_lease
        assert await ready(ports) == "NOT_SERVING"
        assert await health(ports.health, "liveness") == "SERVING"


async def test_a_leader_that_was_frozen_for_too_long_is_not_ready_before_it_has_noticed(
    kube: FakeKubeApi, options: ServeOptions
) -> None:
    await kube.create(inference_pool(8000))
    timing = ElectionTiming(lease=15, renew_deadline=2, retry=0.01)
    async with running(electing(options), election_timing=timing) as (application, _):
        await eventually(lambda: application.views.pool().ready)

        time.sleep(timing.renew_deadline)  # noqa: ASYNC251 - nothing runs meanwhile

        assert application.views.pool().not_ready_reasons == ["this replica is not the leader"]


async def take_lease(kube: FakeKubeApi) -> None:
    """Hold the lease as another replica does that believes it has expired."""
    spec = {"holderIdentity": "stranger", "leaseDurationSeconds": 15}
    await kube.patch(dict(LEASE), {"spec": spec})


async def test_the_process_ends_with_a_failure_when_the_lease_is_lost(
    kube: FakeKubeApi, tmp_path: Path
) -> None:
    await kube.create(inference_pool(8000))
    command = [sys.executable, "-m", "epp", "serve", "--pool-name=pool", "--pool-namespace=models"]
    command += [f"--kubeconfig={kubeconfig_for(kube.url, tmp_path)}", "--ha-enable-leader-election"]
    command += ["--grpc-port=0", "--grpc-health-port=0", "--metrics-port=0", "--admin-port=0"]
    command += ["--bind-address=127.0.0.1", "--drain-timeout=0"]
    picker = Program("epp", command, tmp_path / "epp.log")
    await asyncio.to_thread(picker.start)
    try:
        await asyncio.to_thread(picker.wait_for_line, "this replica leads")
        await take_lease(kube)

        assert await asyncio.to_thread(picker.wait) == 1
        assert "lease lost" in picker.output()
    finally:
        await asyncio.to_thread(picker.kill)
