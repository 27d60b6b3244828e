"""What a reflector knows, and how it asks, while nothing goes wrong."""

from __future__ import annotations

import asyncio

import pytest

from epp.kubernetes.client import KubeClient
from epp.kubernetes.observer import EventType, RelistReason, WatchErrorKind
from tests.fakes.clock import Clock
from tests.fakes.eventually import eventually
from tests.fakes.kubernetes.api import FakeKubeApi
from tests.fakes.kubernetes.objects import pod, pod_status
from tests.fakes.kubernetes.watching import IMPATIENT, impatient, watched_pods


async def test_the_first_sync_is_one_watch_that_begins_with_all_objects(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(pod("a"))
    await kube.create(pod("b"))

    async with watched_pods(client) as pods:
        await pods.until("a", "b")
        await kube.create(pod("c"))
        await pods.until("a", "b", "c")

        assert [seen.verb for seen in kube.seen] == ["watch"]
        assert pods.observer.relists == {RelistReason.FIRST: 1}
        assert pods.observer.is_synced == {"pods": True}


async def test_a_cluster_without_pods_is_synced_as_well(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    async with watched_pods(client) as pods:
        await pods.until()


async def test_the_api_server_selects(kube: FakeKubeApi, client: KubeClient) -> None:
    await kube.create(pod("ours"))
    await kube.create(pod("theirs", {"app": "other"}))
    await kube.create(pod("elsewhere", namespace="other"))

    async with watched_pods(client) as pods:
        await pods.until("ours")


async def test_changes_are_told_in_order(kube: FakeKubeApi, client: KubeClient) -> None:
    async with watched_pods(client) as pods:
        await pods.until()

        await kube.create(pod("a"))
        await kube.patch(pod("a"), pod_status("10.0.0.1"), "/status")
        await kube.create(pod("b"))
        await kube.delete(pod("a"), grace_seconds=0)
        await pods.until("b")

        assert pods.told() == ["+a", "~a", "+b", "~a", "-a"]


async def test_a_pod_whose_labels_change_leaves_and_comes_back(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(pod("a"))

    async with watched_pods(client) as pods:
        await pods.until("a")
        await kube.patch(pod("a"), {"metadata": {"labels": {"app": "other"}}})
        await pods.until()
        await kube.patch(pod("a"), {"metadata": {"labels": {"app": "llama"}}})
        await pods.until("a")


async def test_what_is_of_no_interest_is_not_told(kube: FakeKubeApi, client: KubeClient) -> None:
    await kube.create(pod("a"))

    async with watched_pods(client) as pods:
        await pods.until("a")
        await kube.patch(pod("a"), {"metadata": {"annotations": {"other": "x" * 1000}}})
        await eventually(lambda: pods.observer.events[EventType.MODIFIED] == 1)

        assert pods.told() == ["+a"]


@pytest.mark.parametrize("watch_list", ["off", "endless"])
async def test_a_server_without_watch_list_is_listed_page_by_page(
    kube: FakeKubeApi, client: KubeClient, watch_list: str
) -> None:
    kube.watch_list = "off" if watch_list == "off" else "endless"
    names = {f"pod-{number}" for number in range(5)}
    for name in names:
        await kube.create(pod(name))

    async with watched_pods(client, impatient(page_size=2, initial_events_timeout=0.1)) as pods:
        await pods.until(*names)
        await kube.create(pod("late"))
        await pods.until(*names, "late")

        assert [seen.query["limit"] for seen in kube.requests("list", "pods")] == ["2"] * 3
        assert not any("resourceVersion" in seen.query for seen in kube.requests("list", "pods"))


async def test_a_server_without_watch_list_is_asked_for_it_once(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    kube.watch_list = "off"

    async with watched_pods(client) as pods:
        await pods.until()
        await kube.create(pod("theirs", {"app": "other"}))
        await kube.restart()
        await kube.create(pod("a"))
        await pods.until("a")

        assert pods.observer.relists[RelistReason.EXPIRED] == 1
        asked = [s for s in kube.requests("watch", "pods") if "sendInitialEvents" in s.query]
        assert len(asked) == 1


async def test_a_list_that_expires_between_pages_starts_over(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    kube.watch_list = "off"
    kube.fail(410, reason="Expired", verb="list", times=1, when=lambda s: "continue" in s.query)
    for name in "abc":
        await kube.create(pod(name))

    async with watched_pods(client, impatient(page_size=2)) as pods:
        await pods.until("a", "b", "c")

        assert pods.told() == ["+a", "+b", "+c"]
        assert pods.observer.failures == {WatchErrorKind.EXPIRED: 1}


async def test_the_next_watch_goes_on_where_the_last_one_ended(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(pod("a"))
    await kube.create(pod("b"))

    async with watched_pods(client) as pods:
        await pods.until("a", "b")
        pods.changes.clear()
        kube.end_watches()
        await eventually(lambda: len(kube.seen) == 2 and kube.watches("pods") == 1)
        kube.end_watches()
        await eventually(lambda: len(kube.seen) == 3 and kube.watches("pods") == 1)
        await kube.create(pod("c"))
        await pods.until("a", "b", "c")

        assert pods.told() == ["+c"]
        assert pods.observer.relists == {RelistReason.FIRST: 1}


async def test_each_watch_is_to_end_by_itself_after_a_time_of_its_own(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    """Pitfall 37: one that dies in silence is not followed for hours, nor do all end at once."""
    async with watched_pods(client, impatient(watch_seconds=(120.0, 180.0))) as pods:
        await pods.until()
        for number in range(2, 10):
            kube.end_watches()
            await eventually(lambda: len(kube.seen) == number and kube.watches("pods") == 1)  # noqa: B023 # at once

    asked = [int(seen.query["timeoutSeconds"]) for seen in kube.requests("watch", "pods")]
    assert all(120 <= seconds <= 180 for seconds in asked)
    assert len(set(asked)) > 3


async def test_an_answer_is_a_sign_of_life_and_so_is_every_event_after_it(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    """Pitfall 37: what shows a watch that has died must not grow while one is alive."""
    async with watched_pods(client, impatient(first_pause=60.0, longest_pause=60.0)) as pods:
        await pods.until()
        heard = [pods.observer.contacts]
        await kube.create(pod("a"))
        await pods.until("a")
        heard.append(pods.observer.contacts)
        kube.end_watches()
        await eventually(lambda: len(kube.seen) == 2 and pods.observer.contacts > heard[-1])
        heard.append(pods.observer.contacts)
        await kube.kill()
        await pods.until_failed(WatchErrorKind.UNREACHABLE)
        heard.append(pods.observer.contacts)

    assert 0 < heard[0] < heard[1] < heard[2] == heard[3]


async def test_a_bookmark_moves_the_place_to_go_on_from(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    async with watched_pods(client) as pods:
        await pods.until()
        await kube.create(pod("theirs", {"app": "other"}))
        kube.send_bookmarks()
        await eventually(lambda: pods.observer.events[EventType.BOOKMARK] == 2)
        kube.expire()
        kube.end_watches()
        await eventually(lambda: len(kube.seen) == 2 and kube.watches("pods") == 1)

        assert kube.seen[-1].query["resourceVersion"] == str(kube.store.revision)
        assert not pods.observer.failures


async def test_events_may_arrive_in_any_pieces(kube: FakeKubeApi, client: KubeClient) -> None:
    kube.longest_write = 7
    await kube.create(pod("a"))

    async with watched_pods(client) as pods:
        await pods.until("a")
        await kube.create(pod("ä-ü", {"app": "llama"}))
        await pods.until("a", "ä-ü")


async def test_a_burst_leaves_room_for_others(kube: FakeKubeApi, client: KubeClient) -> None:
    for number in range(100):
        await kube.create(pod(f"pod-{number:03}"))

    async with watched_pods(client, impatient(turn_items=10)) as pods:
        await eventually(lambda: len(pods.store) == 100)
        batches = pods.batches
        for number in range(100):
            await kube.delete(pod(f"pod-{number:03}"), grace_seconds=0)
        await pods.until()

        assert pods.batches - batches >= 10


async def test_a_pod_that_was_replaced_unseen_is_told_as_two(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(pod("a"))

    async with watched_pods(client) as pods:
        await pods.until("a")
        await kube.kill()
        await kube.delete(pod("a"), grace_seconds=0)
        await kube.create(pod("a"))
        await kube.start()
        await eventually(lambda: len(pods.changes) == 3)

        assert pods.told() == ["+a", "-a", "+a"]


async def test_a_resync_repairs_what_no_watch_told(kube: FakeKubeApi, client: KubeClient) -> None:
    clock = Clock()
    await kube.create(pod("a"))

    async with watched_pods(client, now=clock) as pods:
        await pods.until("a")
        kube.is_mute = True
        await kube.create(pod("missed"))
        kube.is_mute = False
        await kube.create(pod("b"))
        await pods.until("a", "b")
        clock.now += 1.2 * IMPATIENT.resync_interval
        kube.end_watches()
        await pods.until("a", "b", "missed")

        assert pods.observer.repairs == 1
        assert pods.observer.relists[RelistReason.PERIODIC] == 1


async def test_a_resync_that_finds_nothing_repairs_nothing(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    clock = Clock()
    await kube.create(pod("a"))

    async with watched_pods(client, now=clock) as pods:
        await pods.until("a")
        clock.now += 1.2 * IMPATIENT.resync_interval
        await kube.kill()
        await kube.create(pod("b"))
        await kube.delete(pod("a"), grace_seconds=0)
        await kube.start()
        await pods.until("b")

        assert pods.observer.relists[RelistReason.PERIODIC] == 1
        assert pods.observer.repairs == 0


async def test_a_cancelled_reflector_leaves_nothing_behind(kube: FakeKubeApi) -> None:
    before = asyncio.all_tasks()

    async with kube.client() as client:
        async with watched_pods(client, IMPATIENT) as pods:
            await pods.until()
        await eventually(lambda: kube.watches("pods") == 0)
    await eventually(lambda: not kube.connections)

    await eventually(lambda: asyncio.all_tasks() == before)
