"""What becomes of the endpoints when the pool or its pods change in the cluster."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from epp.datastore.datastore import Datastore
from epp.datastore.inference_pool import AppProtocol, FailureMode
from epp.datastore.snapshot import Change
from epp.kubernetes.client import KubeClient
from epp.kubernetes.observer import WatchErrorKind
from epp.kubernetes.pool_source import SelectorSource
from tests.fakes.eventually import eventually
from tests.fakes.kubernetes.api import FakeKubeApi
from tests.fakes.kubernetes.objects import Manifest, inference_pool, pod, pod_status
from tests.fakes.kubernetes.store import target_of
from tests.fakes.kubernetes.watching import context_of, followed_pool, running

MISTRAL = {"app": "mistral"}


async def serve(kube: FakeKubeApi, manifest: Manifest, ip: str, *, ready: bool = True) -> None:
    """Create a pod and make it ready, as a kubelet does."""
    await kube.create(manifest)
    await kube.patch(manifest, pod_status(ip, ready=ready), "/status")


async def test_a_pool_and_its_ready_pods_become_endpoints(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(inference_pool(8000, 8001))
    await serve(kube, pod("a"), "10.0.0.1")
    await serve(kube, pod("b"), "10.0.0.2", ready=False)
    await serve(kube, pod("c", MISTRAL), "10.0.0.3")

    async with followed_pool(client) as pool:
        await pool.until("10.0.0.1:8000", "10.0.0.1:8001")
        snapshot = pool.datastore.snapshot()

    assert snapshot.pool is not None
    assert (snapshot.pool.namespace, snapshot.pool.name) == ("models", "pool")
    assert snapshot.pool.failure_mode is FailureMode.FAIL_CLOSE
    assert [str(endpoint.name) for endpoint in snapshot.endpoints] == ["a-rank-0", "a-rank-1"]


async def test_only_this_pool_is_asked_for_so_that_a_role_may_name_it(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(inference_pool(name="other"))
    await kube.create(inference_pool())

    async with followed_pool(client) as pool:
        await pool.until()

        (seen,) = kube.requests("watch", "inferencepools")
        assert seen.query["fieldSelector"] == "metadata.name=pool"
        (seen,) = kube.requests("watch", "pods")
        assert seen.query["labelSelector"] == "app=llama"


async def test_no_pod_is_asked_for_before_the_pool_is_there(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await serve(kube, pod("a"), "10.0.0.1")

    with capture_logs() as logs:
        async with followed_pool(client) as pool:
            await eventually(lambda: kube.watches("inferencepools") == 1 and bool(logs))
            assert not pool.synced
            assert not kube.requests("watch", "pods")
            await kube.create(inference_pool())
            await pool.until("10.0.0.1:8000")

    assert logs[0]["event"] == "InferencePool does not exist, waiting for it"
    assert logs[0]["pool"] == "models/pool"


async def test_a_pool_whose_definition_is_installed_later_is_followed(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    group = "inference.networking.k8s.io"
    kube.remove_definition(group, "inferencepools")

    async with followed_pool(client) as pool:
        await eventually(lambda: pool.observer.failures[WatchErrorKind.NOT_FOUND] >= 2)
        assert not pool.synced
        kube.restore_definition(group, "inferencepools")
        await kube.create(inference_pool())
        await pool.until()


async def test_without_access_to_pods_the_picker_is_not_ready(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    kube.forbid("watch", "pods")
    await kube.create(inference_pool())
    await serve(kube, pod("a"), "10.0.0.1")

    async with followed_pool(client) as pool:
        await eventually(lambda: pool.observer.failures[WatchErrorKind.FORBIDDEN] >= 2)
        assert not pool.synced
        kube.allow("watch", "pods")
        await pool.until("10.0.0.1:8000")


async def test_pods_come_and_go(kube: FakeKubeApi, client: KubeClient) -> None:
    await kube.create(inference_pool())

    async with followed_pool(client) as pool:
        await pool.until()
        await serve(kube, pod("a"), "10.0.0.1")
        await pool.until("10.0.0.1:8000")
        await serve(kube, pod("b"), "fd00::2")
        await pool.until("10.0.0.1:8000", "[fd00::2]:8000")
        await kube.patch(pod("a"), pod_status("10.0.0.1", ready=False), "/status")
        await pool.until("[fd00::2]:8000")
        await kube.patch(pod("a"), pod_status("10.0.0.1"), "/status")
        await pool.until("10.0.0.1:8000", "[fd00::2]:8000")
        await kube.patch(pod("b"), {"metadata": {"labels": MISTRAL}})
        await pool.until("10.0.0.1:8000")


async def test_a_pod_that_is_told_to_go_leaves_at_once_though_it_is_still_ready(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(inference_pool())
    await serve(kube, pod("a"), "10.0.0.1")

    async with followed_pool(client) as pool:
        await pool.until("10.0.0.1:8000")
        await kube.delete(pod("a"))
        await pool.until()

        (stored,) = await kube.objects(pod("a"))
        condition = stored["status"]["conditions"][0]
        assert (condition["type"], condition["status"]) == ("Ready", "True")


async def test_active_ports_narrow_a_pod(kube: FakeKubeApi, client: KubeClient) -> None:
    await kube.create(inference_pool(8000, 8001, 8002))
    await serve(kube, pod("a", annotations={"llm-d.ai/active-ports": "8001"}), "10.0.0.1")
    legacy = {"inference.networking.k8s.io/active-ports": "8000, 8002"}
    await serve(kube, pod("b", annotations=legacy), "10.0.0.2")

    async with followed_pool(client) as pool:
        await pool.until("10.0.0.1:8001", "10.0.0.2:8000", "10.0.0.2:8002")
        await kube.patch(pod("a"), {"metadata": {"annotations": {"llm-d.ai/active-ports": "8000"}}})
        await pool.until("10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.2:8002")


async def test_pods_without_an_endpoint_are_explained(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(inference_pool())
    await serve(kube, pod("fine"), "10.0.0.1")
    await serve(kube, pod("starting"), "10.0.0.2", ready=False)
    await kube.create(pod("going"))
    await kube.delete(pod("going"))
    await kube.create(pod("nowhere"))
    await kube.patch(pod("nowhere"), pod_status(), "/status")

    async with followed_pool(client) as pool:
        await pool.until("10.0.0.1:8000")
        reasons = {pod.name: reason for pod, reason in pool.datastore.explanations()}

    assert reasons == {
        "starting": "not ready",
        "going": "terminating",
        "nowhere": "no usable IP address",
    }


async def test_ports_that_hardly_match_are_told_once_and_served_all_the_same(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    """Pitfall 35: what a container declares is a hint, to the operator and to nobody else."""
    await kube.create(inference_pool(8000))
    await serve(kube, pod("says-nothing"), "10.0.0.1")
    await serve(kube, declaring("matches", 9090, 8000), "10.0.0.2")
    await serve(kube, declaring("odd", 8300, 9090), "10.0.0.3")

    with capture_logs() as logs:
        async with followed_pool(client) as pool:
            await pool.until("10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000")
            await serve(kube, declaring("odd-as-well", 9090, 8300), "10.0.0.4")
            await kube.patch(pod("odd"), {"metadata": {"labels": {"more": "labels"}}})
            await eventually(lambda: any("more" in each.labels for each in pool.endpoints))
            await pool.until(*(f"10.0.0.{number}:8000" for number in (1, 2, 3, 4)))
            await kube.replace(inference_pool(8001))
            await pool.until(*(f"10.0.0.{number}:8001" for number in (1, 2, 3, 4)))

    told = [log for log in logs if log["event"].startswith("containers declare other ports")]
    assert {log["log_level"] for log in told} == {"warning"}
    assert [(log["pod"], log["declared"], log["target_ports"]) for log in told] == [
        ("models/odd", [8300, 9090], [8000]),
        ("models/matches", [8000, 9090], [8001]),
        ("models/odd", [8300, 9090], [8001]),
    ]


def declaring(name: str, *ports: int) -> Manifest:
    manifest = pod(name)
    manifest["spec"]["containers"][0]["ports"] = [{"containerPort": port} for port in ports]
    return manifest


async def test_other_target_ports_need_no_other_watch(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(inference_pool(8000))
    await serve(kube, pod("a"), "10.0.0.1")

    async with followed_pool(client) as pool:
        await pool.until("10.0.0.1:8000")
        await kube.replace(inference_pool(8000, 9000, appProtocol="kubernetes.io/h2c"))
        await pool.until("10.0.0.1:8000", "10.0.0.1:9000")
        served = pool.datastore.snapshot().pool

    assert served is not None
    assert served.app_protocol is AppProtocol.H2C
    assert len(kube.requests("watch", "pods")) == 1


async def test_another_selector_is_swapped_in_without_a_gap(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(inference_pool(8000))
    await serve(kube, pod("old"), "10.0.0.1")
    await serve(kube, pod("both", {"app": "llama", "tier": "new"}), "10.0.0.2")
    await serve(kube, pod("new", {"tier": "new"}), "10.0.0.3")
    changes: list[Change] = []

    async with followed_pool(client) as pool:
        await pool.until("10.0.0.1:8000", "10.0.0.2:8000")
        load = pool.datastore.snapshot().by_address["10.0.0.2:8000"].load
        pool.datastore.subscribe(changes.append)
        await kube.replace(inference_pool(8000, labels={"tier": "new"}))
        await pool.until("10.0.0.2:8000", "10.0.0.3:8000")
        await eventually(lambda: kube.watches("pods") == 1)
        await serve(kube, pod("newer", {"tier": "new"}), "10.0.0.4")
        await pool.until("10.0.0.2:8000", "10.0.0.3:8000", "10.0.0.4:8000")
        await serve(kube, pod("older"), "10.0.0.5")

        assert [len(change.new.endpoints) for change in changes] == [2, 3]
        assert all(change.new.synced for change in changes)
        assert pool.datastore.snapshot().by_address["10.0.0.2:8000"].load is load


async def test_the_old_pods_serve_on_until_the_new_ones_are_known(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(inference_pool(8000))
    await serve(kube, pod("a"), "10.0.0.1")

    async with followed_pool(client) as pool:
        await pool.until("10.0.0.1:8000")
        kube.fail(500, verb="watch", when=lambda s: s.query["labelSelector"] == "app=mistral")
        await kube.replace(inference_pool(9000, labels=MISTRAL))
        await eventually(lambda: pool.observer.failures[WatchErrorKind.STATUS] >= 2)
        await serve(kube, pod("b"), "10.0.0.2")
        await pool.until("10.0.0.1:8000", "10.0.0.2:8000")
        await serve(kube, pod("c", MISTRAL), "10.0.0.3")
        kube.heal()
        await pool.until("10.0.0.3:9000")


async def test_a_selector_that_is_taken_back_in_time_changes_nothing(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(inference_pool(8000))
    await serve(kube, pod("a"), "10.0.0.1")

    async with followed_pool(client) as pool:
        await pool.until("10.0.0.1:8000")
        kube.fail(500, verb="watch", when=lambda s: s.query["labelSelector"] == "app=mistral")
        await kube.replace(inference_pool(8000, labels=MISTRAL))
        await eventually(lambda: pool.observer.failures[WatchErrorKind.STATUS] >= 1)
        await kube.replace(inference_pool(9000))
        await pool.until("10.0.0.1:9000")
        await eventually(lambda: kube.watches("pods") == 1)
        kube.heal()
        await serve(kube, pod("b"), "10.0.0.2")
        await pool.until("10.0.0.1:9000", "10.0.0.2:9000")


@pytest.mark.parametrize("finalizers", [[], ["example.org/hold"]], ids=["at once", "held"])
async def test_a_deleted_pool_takes_endpoints_and_readiness_and_brings_them_back(
    kube: FakeKubeApi, client: KubeClient, finalizers: list[str]
) -> None:
    manifest = inference_pool(8000)
    manifest["metadata"]["finalizers"] = finalizers
    await kube.create(manifest)
    await serve(kube, pod("a"), "10.0.0.1")

    async with followed_pool(client) as pool:
        await pool.until("10.0.0.1:8000")
        load = pool.datastore.snapshot().endpoints[0].load
        await kube.delete(manifest)
        await eventually(lambda: not pool.synced)
        assert not pool.addresses
        assert pool.datastore.snapshot().pool is None
        assert pool.observer.is_synced["pods"] is False
        await eventually(lambda: kube.watches("pods") == 0)
        if finalizers:
            await kube.patch(manifest, {"metadata": {"finalizers": None}})
        await kube.create(inference_pool(9000))
        await pool.until("10.0.0.1:9000")

        assert pool.observer.is_synced["pods"] is True
        assert pool.datastore.snapshot().endpoints[0].load is not load  # the port is another


async def test_a_pool_that_was_replaced_unseen_leaves_no_gap(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(inference_pool(8000))
    await serve(kube, pod("a"), "10.0.0.1")
    changes: list[Change] = []

    async with followed_pool(client) as pool:
        await pool.until("10.0.0.1:8000")
        pool.datastore.subscribe(changes.append)
        await kube.kill()
        await kube.delete(inference_pool())
        await kube.create(inference_pool(9000))
        await kube.start()
        await pool.until("10.0.0.1:9000")

    assert all(change.new.synced and change.new.endpoints for change in changes)


async def test_a_pool_that_is_not_valid_is_told_once_and_the_last_good_one_stays(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(inference_pool(8000))
    await serve(kube, pod("a"), "10.0.0.1")
    old_form = {**inference_pool(), "spec": {"selector": {"app": "x"}, "targetPortNumber": 1}}

    with capture_logs() as logs:
        async with followed_pool(client) as pool:
            await pool.until("10.0.0.1:8000")
            kube.store.put_unchecked(target_of(old_form), old_form)
            await eventually(lambda: pool.observer.rejected_pools == 1)
            await kube.restart()
            await serve(kube, pod("b"), "10.0.0.2")
            await pool.until("10.0.0.1:8000", "10.0.0.2:8000")
            kube.store.put_unchecked(target_of(old_form), inference_pool(9000))
            await pool.until("10.0.0.1:9000", "10.0.0.2:9000")

    told = [line for line in logs if line["event"].startswith("InferencePool is not valid")]
    assert len(told) == 1
    assert "spec.targetPortNumber" in told[0]["problem"]


async def test_a_label_that_would_change_the_query_is_refused(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(inference_pool(labels={"app,!tier": "llama"}))

    with capture_logs() as logs:
        async with followed_pool(client) as pool:
            await eventually(lambda: pool.observer.rejected_pools == 1)
            assert not pool.synced

    (told,) = [line for line in logs if line["event"].startswith("InferencePool is not valid")]
    assert 'spec.selector.matchLabels: key "app,!tier" is not allowed' in told["problem"]


async def test_the_status_that_gateways_write_is_of_no_interest(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(inference_pool())
    changes: list[Change] = []

    async with followed_pool(client) as pool:
        await pool.until()
        pool.datastore.subscribe(changes.append)
        await kube.patch(
            inference_pool(), {"status": {"parents": [{"parentRef": {"name": "gw"}}]}}, "/status"
        )
        await kube.create(pod("after"))
        await eventually(lambda: len(pool.datastore.explanations()) == 1)

    assert not changes


async def test_an_outage_keeps_the_picker_ready(kube: FakeKubeApi, client: KubeClient) -> None:
    await kube.create(inference_pool())
    await serve(kube, pod("a"), "10.0.0.1")

    async with followed_pool(client) as pool:
        await pool.until("10.0.0.1:8000")
        await kube.kill()
        await eventually(lambda: pool.observer.failures[WatchErrorKind.UNREACHABLE] >= 6)
        assert pool.synced
        assert pool.addresses == ["10.0.0.1:8000"]
        await serve(kube, pod("b"), "10.0.0.2")
        await kube.start()
        await pool.until("10.0.0.1:8000", "10.0.0.2:8000")


async def test_a_source_that_is_stopped_leaves_no_task_and_no_connection(
    kube: FakeKubeApi,
) -> None:
    before = asyncio.all_tasks()
    await kube.create(inference_pool())

    async with kube.client() as client:
        async with followed_pool(client) as pool:
            await pool.until()
            kube.fail(500, verb="watch", when=lambda s: s.query["labelSelector"] == "app=mistral")
            await kube.replace(inference_pool(labels=MISTRAL))
            await eventually(lambda: pool.observer.failures[WatchErrorKind.STATUS] >= 1)
        await eventually(lambda: not kube.watches("pods") and not kube.watches("inferencepools"))
    await eventually(lambda: not kube.connections)

    await eventually(lambda: asyncio.all_tasks() == before)


async def test_a_selector_alone_is_a_pool_without_a_failure_mode(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await serve(kube, pod("a", {"app": "llama", "tier": "new"}), "10.0.0.1")
    await serve(kube, pod("b", {"app": "llama", "tier": "old"}), "10.0.0.2")
    await serve(kube, pod("c", {"tier": "new"}), "10.0.0.3")
    datastore = Datastore()
    source = SelectorSource(
        context_of(client),
        selector="app in (llama, mistral), tier notin (old)",  # codespell:ignore notin
        target_ports=[8000, 8001],
        namespace="models",
        pool_name="deployment",
        datastore=datastore,
    )

    async with running(source.run()):
        await eventually(lambda: datastore.snapshot().synced)

        snapshot = datastore.snapshot()
        assert list(snapshot.by_address) == ["10.0.0.1:8000", "10.0.0.1:8001"]
        assert snapshot.pool is not None
        assert snapshot.pool.failure_mode is None
        assert not kube.requests("watch", "inferencepools")
