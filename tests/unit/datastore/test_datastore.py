from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from epp.datastore.datastore import Datastore
from epp.datastore.endpoint_index import pool_order
from epp.datastore.inference_pool import InferencePool
from epp.datastore.pods import ACTIVE_PORTS, Pod, expand_endpoints
from epp.datastore.snapshot import Change, Snapshot
from epp.framework.endpoint import Endpoint, EndpointState
from tests.fakes.pool import pod_of, pool_of


@pytest.fixture
def datastore() -> Datastore:
    datastore = Datastore()
    datastore.set_pool(pool_of(8000, 8001))
    return datastore


@pytest.fixture
def changes(datastore: Datastore) -> list[Change]:
    changes: list[Change] = []
    datastore.subscribe(changes.append)
    return changes


def addresses(endpoints: tuple[Endpoint, ...]) -> list[str]:
    return [endpoint.address for endpoint in endpoints]


def endpoint_at(datastore: Datastore, address: str) -> Endpoint:
    return datastore.snapshot().by_address[address]


def test_nothing_is_known_at_first() -> None:
    snapshot = Datastore().snapshot()

    assert snapshot.pool is None
    assert not snapshot.synced
    assert snapshot.endpoints == ()


def test_endpoints_are_found_in_order_by_address_and_by_ip(datastore: Datastore) -> None:
    datastore.set_pods([pod_of("b", "10.0.0.2"), pod_of("a", "fd00:0::1")])

    snapshot = datastore.snapshot()
    a0, a1, b0, b1 = snapshot.endpoints
    assert addresses(snapshot.endpoints) == [
        "[fd00::1]:8000",
        "[fd00::1]:8001",
        "10.0.0.2:8000",
        "10.0.0.2:8001",
    ]
    assert snapshot.by_address["[fd00::1]:8001"] is a1
    assert snapshot.by_ip == {"fd00::1": (a0, a1), "10.0.0.2": (b0, b1)}


def test_pods_wait_for_the_pool_and_go_with_it() -> None:
    datastore = Datastore()

    datastore.upsert_pod(pod_of())
    assert datastore.snapshot().endpoints == ()
    datastore.set_pool(pool_of(8000))
    assert addresses(datastore.snapshot().endpoints) == ["10.0.0.1:8000"]
    datastore.set_pool(None)
    assert datastore.snapshot().endpoints == ()


def test_a_snapshot_never_changes(datastore: Datastore) -> None:
    datastore.upsert_pod(pod_of("a"))
    snapshot = datastore.snapshot()
    before = (snapshot.endpoints, dict(snapshot.by_address), dict(snapshot.by_ip))

    datastore.upsert_pod(pod_of("b", "10.0.0.2"))
    datastore.delete_pod("uid-a")

    assert (snapshot.endpoints, snapshot.by_address, snapshot.by_ip) == before


def test_what_changes_nothing_publishes_nothing(
    datastore: Datastore, changes: list[Change]
) -> None:
    datastore.set_pods([pod_of("a"), pod_of("b", ready=False)])
    snapshot = datastore.snapshot()
    changes.clear()

    datastore.set_pods([pod_of("a"), pod_of("b", ready=False)])
    datastore.upsert_pod(pod_of("a", annotations={"unrelated": "x"}))
    datastore.upsert_pod(pod_of("b", ready=False, ip="10.0.0.9"))
    datastore.delete_pod("uid-b")
    datastore.delete_pod("unknown")
    datastore.set_pool(pool_of(8000, 8001))

    assert datastore.snapshot() is snapshot
    assert changes == []


def test_new_labels_keep_the_load(datastore: Datastore, changes: list[Change]) -> None:
    datastore.upsert_pod(pod_of("a"))
    old = endpoint_at(datastore, "10.0.0.1:8000")

    datastore.upsert_pod(pod_of("a", labels={"role": "decode"}))

    new = endpoint_at(datastore, "10.0.0.1:8000")
    assert new is not old
    assert new.load is old.load
    assert new.labels == {"role": "decode"}
    assert addresses(changes[-1].replaced) == ["10.0.0.1:8000", "10.0.0.1:8001"]
    assert (changes[-1].added, changes[-1].removed) == ((), ())


def test_a_pod_that_was_not_ready_for_a_moment_keeps_its_load(datastore: Datastore) -> None:
    datastore.upsert_pod(pod_of("a"))
    load = endpoint_at(datastore, "10.0.0.1:8000").load

    datastore.upsert_pod(pod_of("a", ready=False))
    assert datastore.snapshot().endpoints == ()
    datastore.upsert_pod(pod_of("a"))

    assert endpoint_at(datastore, "10.0.0.1:8000").load is load


def test_a_pod_created_anew_under_its_name_inherits_nothing(datastore: Datastore) -> None:
    datastore.upsert_pod(pod_of("a", uid="first"))
    load = endpoint_at(datastore, "10.0.0.1:8000").load

    datastore.set_pods([pod_of("a", uid="second")])

    assert endpoint_at(datastore, "10.0.0.1:8000").load is not load


def test_two_pods_may_have_one_address_for_a_moment(datastore: Datastore) -> None:
    datastore.upsert_pod(pod_of("old", "10.0.0.1"))
    datastore.upsert_pod(pod_of("new", "10.0.0.1"))

    datastore.delete_pod("uid-old")

    assert endpoint_at(datastore, "10.0.0.1:8000").pod_name == "new"
    assert addresses(datastore.snapshot().by_ip["10.0.0.1"]) == ["10.0.0.1:8000", "10.0.0.1:8001"]


def test_other_target_ports_keep_the_endpoints_they_share(
    datastore: Datastore, changes: list[Change]
) -> None:
    datastore.upsert_pod(pod_of("a"))
    kept = endpoint_at(datastore, "10.0.0.1:8000")

    datastore.set_pool(pool_of(8000, 8002))

    assert endpoint_at(datastore, "10.0.0.1:8000") is kept
    assert addresses(changes[-1].added) == ["10.0.0.1:8002"]
    assert addresses(changes[-1].removed) == ["10.0.0.1:8001"]


def test_a_pool_with_the_same_ports_keeps_every_endpoint(datastore: Datastore) -> None:
    datastore.upsert_pod(pod_of("a"))
    endpoints = datastore.snapshot().endpoints

    datastore.set_pool(pool_of(8000, 8001, name="renamed"))

    snapshot = datastore.snapshot()
    assert snapshot.pool == pool_of(8000, 8001, name="renamed")
    assert snapshot.endpoints == endpoints


def test_a_batch_is_one_change(datastore: Datastore, changes: list[Change]) -> None:
    before = datastore.snapshot()

    with datastore.batch():
        datastore.upsert_pod(pod_of("a"))
        datastore.upsert_pod(pod_of("b", "10.0.0.2"))
        datastore.delete_pod("uid-b")
        datastore.mark_synced()
        assert datastore.snapshot() is before

    (change,) = changes
    assert change.old is before
    assert change.new is datastore.snapshot()
    assert change.new.synced
    assert addresses(change.added) == ["10.0.0.1:8000", "10.0.0.1:8001"]
    assert (change.removed, change.replaced) == ((), ())


def test_a_batch_that_fails_publishes_what_was_done(datastore: Datastore) -> None:
    def failing_batch() -> None:
        with datastore.batch():
            datastore.upsert_pod(pod_of("a"))
            raise KeyError

    with pytest.raises(KeyError):
        failing_batch()

    assert len(datastore.snapshot().endpoints) == 2


def test_nobody_is_told_after_unsubscribing(datastore: Datastore) -> None:
    changes: list[Change] = []
    unsubscribe = datastore.subscribe(changes.append)

    unsubscribe()
    datastore.upsert_pod(pod_of("a"))

    assert changes == []


async def test_who_waits_for_the_sync_goes_on_after_it(datastore: Datastore) -> None:
    waiting = asyncio.ensure_future(datastore.wait_synced())
    await asyncio.sleep(0)
    assert not waiting.done()

    datastore.mark_synced()

    await waiting
    assert datastore.snapshot().synced


async def test_who_comes_when_the_sync_is_lost_waits_for_the_next_one(
    datastore: Datastore,
) -> None:
    datastore.mark_synced()
    datastore.mark_unsynced()
    waiting = asyncio.ensure_future(datastore.wait_synced())
    await asyncio.sleep(0)

    assert not datastore.snapshot().synced
    assert not waiting.done()
    datastore.mark_synced()
    await waiting


def test_pods_without_an_endpoint_are_explained_as_of_now(datastore: Datastore) -> None:
    datastore.upsert_pod(pod_of("a"))
    datastore.upsert_pod(pod_of("b", ready=False))
    assert [(pod.name, why) for pod, why in datastore.explanations()] == [("b", "not ready")]

    datastore.upsert_pod(pod_of("b"))
    datastore.set_pool(None)

    assert {why for _, why in datastore.explanations()} == {"there is no pool"}


def test_a_ready_pod_without_endpoint_is_warned_about_once(datastore: Datastore) -> None:
    with capture_logs() as lines:
        for labels in ({}, {"a": "b"}):
            datastore.upsert_pod(pod_of("a", annotations={ACTIVE_PORTS: "9"}, labels=labels))
        datastore.upsert_pod(pod_of("b", ready=False))

    assert [line["pod"] for line in lines if line["log_level"] == "warning"] == ["default/a"]


names = st.sampled_from("abcd")
pods = st.builds(
    lambda name, generation, ip, ready, labels, ports: pod_of(
        name,
        uid=f"{name}{generation}",
        ip=f"10.0.0.{ip}",
        ready=ready,
        labels=labels,
        annotations={} if ports is None else {ACTIVE_PORTS: ports},
    ),
    names,
    st.integers(0, 1),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from([{}, {"role": "decode"}]),
    st.sampled_from([None, "8000", "8001", "x"]),
)
pools = st.sampled_from([None, pool_of(8000), pool_of(8000, 8001), pool_of(8001, 8000, name="q")])
steps = st.one_of(
    st.tuples(st.just("upsert"), pods),
    st.tuples(st.just("delete"), pods.map(lambda pod: pod.uid)),
    st.tuples(st.just("replace"), st.lists(pods, max_size=5)),
    st.tuples(st.just("pool"), pools),
)


class Model:
    """What the datastore must look like, computed from nothing but the final state."""

    def __init__(self) -> None:
        self.pool: InferencePool | None = None
        self.pods: dict[str, Pod] = {}

    def apply(self, datastore: Datastore, step: tuple[str, object]) -> set[str]:
        """Do a step on both; returns the uids that are gone."""
        before = set(self.pods)
        match step:
            case ("upsert", Pod() as pod):
                self.pods[pod.uid] = pod
                datastore.upsert_pod(pod)
            case ("delete", str(uid)):
                self.pods.pop(uid, None)
                datastore.delete_pod(uid)
            case ("replace", list(new)):
                self.pods = {pod.uid: pod for pod in new}
                datastore.set_pods(new)
            case ("pool", pool):
                assert pool is None or isinstance(pool, InferencePool)
                self.pool = pool
                datastore.set_pool(pool)
        return before - set(self.pods)

    def endpoints(self) -> list[Endpoint]:
        if self.pool is None:
            return []
        found: list[Endpoint] = []
        for pod in self.pods.values():
            found += expand_endpoints(pod, self.pool, lambda _: EndpointState()).endpoints
        return sorted(found, key=pool_order)


def facts(endpoint: Endpoint) -> Endpoint:
    return replace(endpoint, state=NO_STATE)


def described(endpoints: list[Endpoint] | tuple[Endpoint, ...]) -> list[str]:
    return [repr(facts(endpoint)) for endpoint in endpoints]


NO_STATE = EndpointState()


def check_indexes(snapshot: Snapshot) -> None:
    assert set(snapshot.by_address) == {endpoint.address for endpoint in snapshot.endpoints}
    assert all(address == e.address for address, e in snapshot.by_address.items())
    assert set(snapshot.by_address.values()) <= set(snapshot.endpoints)
    for ip in {endpoint.ip for endpoint in snapshot.endpoints} | set(snapshot.by_ip):
        assert snapshot.by_ip[ip] == tuple(e for e in snapshot.endpoints if e.ip == ip)
        assert snapshot.by_ip[ip]


def check_change(change: Change) -> None:
    old = {endpoint.id: endpoint for endpoint in change.old.endpoints}
    new = {endpoint.id: endpoint for endpoint in change.new.endpoints}
    assert set(change.added) == {new[id_] for id_ in new.keys() - old.keys()}
    assert set(change.removed) == {old[id_] for id_ in old.keys() - new.keys()}
    assert set(change.replaced) == {
        new[id_] for id_ in new.keys() & old.keys() if new[id_] is not old[id_]
    }


@given(st.lists(st.lists(steps, min_size=1, max_size=3), max_size=12))
def test_a_snapshot_depends_on_the_final_state_alone(
    batches: list[list[tuple[str, object]]],
) -> None:
    datastore, model = Datastore(), Model()
    changes: list[Change] = []
    datastore.subscribe(changes.append)
    for batch in batches:
        with datastore.batch():
            for step in batch:
                model.apply(datastore, step)
        snapshot = datastore.snapshot()
        assert described(snapshot.endpoints) == described(model.endpoints())
        assert snapshot.pool == model.pool
        check_indexes(snapshot)
    for change in changes:
        check_change(change)


@given(st.lists(steps, max_size=25))
def test_state_lives_as_long_as_its_endpoint(script: list[tuple[str, object]]) -> None:
    datastore, model = Datastore(), Model()
    forgotten: list[EndpointState] = []
    for step in script:
        old = {endpoint.id: endpoint for endpoint in datastore.snapshot().endpoints}
        gone = model.apply(datastore, step)
        forgotten += [e.state for e in old.values() if e.id.pod_uid in gone]
        for endpoint in datastore.snapshot().endpoints:
            assert not any(endpoint.state is state for state in forgotten)
            before = old.get(endpoint.id)
            if before is not None:
                assert endpoint.state is before.state
                assert (endpoint is before) == (repr(facts(endpoint)) == repr(facts(before)))
