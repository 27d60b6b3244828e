"""Whatever goes wrong, a reflector keeps what it knows, says so once and comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Literal

import msgspec
import pytest
from structlog.testing import capture_logs

from epp.kubernetes import objects
from epp.kubernetes.client import KubeClient
from epp.kubernetes.observer import EventType, RelistReason, WatchErrorKind
from tests.fakes.eventually import eventually
from tests.fakes.kubernetes.api import FakeKubeApi
from tests.fakes.kubernetes.objects import pod, pod_status
from tests.fakes.kubernetes.store import target_of
from tests.fakes.kubernetes.watching import impatient, running, watched_pods


async def test_after_a_restart_pods_that_vanished_meanwhile_are_deleted(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(pod("stays"))
    await kube.create(pod("goes"))

    async with watched_pods(client) as pods:
        await pods.until("goes", "stays")
        await kube.kill()
        await kube.delete(pod("goes"), grace_seconds=0)
        await kube.create(pod("new"))
        await kube.start()
        await pods.until("new", "stays")

        assert pods.told()[2:] == ["-goes", "+new"]
        assert pods.observer.relists[RelistReason.EXPIRED] == 1
        assert pods.observer.repairs == 0


async def test_an_expired_version_may_be_told_by_status_as_well(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(pod("a"))

    async with watched_pods(client) as pods:
        await pods.until("a")
        kube.fail(410, reason="Expired", verb="watch", times=1)
        kube.end_watches()
        await pods.until_failed(WatchErrorKind.EXPIRED)
        await kube.create(pod("b"))
        await pods.until("a", "b")

        assert pods.told() == ["+a", "+b"]


async def test_an_error_event_is_followed_by_a_relist(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(pod("a"))

    async with watched_pods(client) as pods:
        await pods.until("a")
        kube.send_error(500, "InternalError")
        await eventually(lambda: pods.observer.relists[RelistReason.REFUSED] == 1)

        assert pods.observer.failures == {WatchErrorKind.STATUS: 1}
        assert pods.observer.events[EventType.ERROR] == 1


async def test_a_broken_connection_is_resumed_without_a_relist(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(pod("a"))

    async with watched_pods(client) as pods:
        await pods.until("a")
        kube.cut()
        await kube.create(pod("b"))
        await pods.until("a", "b")

        assert pods.told() == ["+a", "+b"]
        assert pods.observer.relists == {RelistReason.FIRST: 1}
        assert pods.observer.failures == {WatchErrorKind.UNREACHABLE: 1}


async def test_an_outage_keeps_everything_and_is_said_once(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(pod("a"))

    with capture_logs() as logs:
        async with watched_pods(client) as pods:
            await pods.until("a")
            await kube.kill()
            await pods.until_failed(WatchErrorKind.UNREACHABLE, times=5)
            assert pods.names == {"a"}
            assert pods.reflector.synced
            await kube.start()
            await kube.create(pod("b"))
            await pods.until("a", "b")

    assert [line["event"] for line in logs] == [
        "API server is unreachable, what is known stays",
        "watch works again",
    ]
    assert kube.url in logs[0]["problem"]


async def test_a_frozen_server_is_noticed(kube: FakeKubeApi, client: KubeClient) -> None:
    await kube.create(pod("a"))
    settings = impatient(watch_seconds=(0.1, 0.1), watch_grace=0.0, response_timeout=0.1)

    async with watched_pods(client, settings) as pods:
        await pods.until("a")
        await kube.freeze()
        await kube.create(pod("b"))
        await pods.until_failed(WatchErrorKind.UNREACHABLE, times=3)
        assert pods.names == {"a"}
        await kube.thaw()
        await pods.until("a", "b")


async def test_a_version_from_the_future_is_found_out_by_the_silence(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(pod("old"))

    async with watched_pods(client, impatient(silent_after=0.0)) as pods:
        await pods.until("old")
        await kube.wipe()
        await kube.create(pod("new"))
        await eventually(lambda: kube.watches("pods") == 1)
        kube.end_watches()
        await pods.until("new")

        assert pods.observer.relists[RelistReason.SILENT] == 1
        assert pods.told() == ["+old", "-old", "+new"]
        assert pods.observer.repairs == 0  # no watch could have told


async def test_a_stream_that_told_something_is_believed(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    async with watched_pods(client, impatient(silent_after=0.0)) as pods:
        await pods.until()
        kube.end_watches()
        await eventually(lambda: len(kube.seen) == 2 and kube.watches("pods") == 1)
        kube.send_bookmarks()
        kube.end_watches()
        await eventually(lambda: len(kube.seen) == 3 and kube.watches("pods") == 1)

        assert pods.observer.relists == {RelistReason.FIRST: 1}


async def test_streams_that_end_at_once_are_not_opened_in_a_hurry(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    async with watched_pods(client, impatient(shortest_stream=60.0)) as pods:
        await pods.until()
        kube.fail(200, verb="watch", text="")
        kube.end_watches()
        await pods.until_failed(WatchErrorKind.SHORT_STREAM, times=3)
        kube.heal()
        await kube.create(pod("a"))
        await pods.until("a")

        # The one that was ended had begun with all objects.
        assert pods.observer.failures[WatchErrorKind.SHORT_STREAM] == len(kube.seen) - 2


async def test_an_initial_watch_that_ends_early_changes_nothing(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    kube.watch_list = "endless"
    await kube.create(pod("a"))

    async with watched_pods(client) as pods:
        await eventually(lambda: pods.observer.events[EventType.ADDED] == 1)
        kube.end_watches()
        await pods.until_failed(WatchErrorKind.UNREACHABLE)
        assert not pods.changes
        assert not pods.reflector.synced
        kube.watch_list = "on"
        kube.end_watches()
        await pods.until("a")


async def test_missing_access_is_said_once_and_precisely(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    kube.forbid("watch", "pods")

    with capture_logs() as logs:
        async with watched_pods(client) as pods:
            await pods.until_failed(WatchErrorKind.FORBIDDEN, times=5)
            assert not pods.reflector.synced
            kube.allow("watch", "pods")
            await pods.until()

    missing, again = logs
    assert missing["event"] == "access is missing, grant it by a Role"
    assert missing["log_level"] == "error"
    named = {name: missing[name] for name in ("verb", "resource", "group", "namespace")}
    assert named == {"verb": "watch", "resource": "pods", "group": "", "namespace": "models"}
    assert 'User "test" cannot watch resource "pods"' in missing["problem"]
    assert again["event"] == "watch works again"


async def test_access_that_is_taken_away_keeps_what_is_known(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(pod("a"))

    async with watched_pods(client) as pods:
        await pods.until("a")
        kube.forbid("watch", "pods")
        kube.end_watches()
        await pods.until_failed(WatchErrorKind.FORBIDDEN, times=2)
        await kube.create(pod("b"))
        assert pods.names == {"a"}
        kube.allow("watch", "pods")
        await pods.until("a", "b")

        assert pods.observer.relists == {RelistReason.FIRST: 1}


async def test_a_resource_that_is_installed_later_is_found(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    kube.remove_definition("", "pods")

    with capture_logs() as logs:
        async with watched_pods(client) as pods:
            await pods.until_failed(WatchErrorKind.NOT_FOUND, times=3)
            kube.restore_definition("", "pods")
            await pods.until()

    assert logs[0]["event"].startswith("resource is not served")
    assert logs[0]["problem"] == "404: 404 page not found"
    assert len(logs) == 2


async def test_the_page_of_a_proxy_is_no_event(kube: FakeKubeApi, client: KubeClient) -> None:
    await kube.create(pod("a"))

    with capture_logs() as logs:
        async with watched_pods(client) as pods:
            await pods.until("a")
            kube.fail(503, text="<html>\n<b>no healthy upstream</b>\n</html>", times=3)
            kube.end_watches()
            await pods.until_failed(WatchErrorKind.STATUS, times=3)
            await kube.create(pod("b"))
            await pods.until("a", "b")

    assert logs[0]["problem"] == "503: <html> <b>no healthy upstream</b> </html>"


async def test_a_throttled_client_waits_as_long_as_it_is_told(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    kube.fail(429, reason="TooManyRequests", headers={"Retry-After": "7"})

    with capture_logs() as logs:
        async with watched_pods(client) as pods:
            await pods.until_failed(WatchErrorKind.THROTTLED)

    assert 7 <= logs[0]["retry_in"] <= 14


async def test_nobody_is_made_to_wait_for_hours(kube: FakeKubeApi, client: KubeClient) -> None:
    kube.fail(503, headers={"Retry-After": "86400"})

    with capture_logs() as logs:
        async with watched_pods(client) as pods:
            await pods.until_failed(WatchErrorKind.STATUS)

    assert 60 <= logs[0]["retry_in"] <= 120


async def test_what_could_not_be_taken_in_is_asked_for_anew(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    """Pitfall 34."""
    async with watched_pods(client) as pods:
        await pods.until()
        pods.refused.add("a")
        with capture_logs() as logs:
            await kube.create(pod("a"))
            await kube.create(pod("b"))
            await pods.until("b")
        assert {line["event"] for line in logs} == {"a change in the cluster could not be taken in"}
        pods.refused.clear()
        kube.end_watches()
        await pods.until("a", "b")

        assert pods.told() == ["+b", "+a"]
        assert pods.observer.relists == {RelistReason.FIRST: 1, RelistReason.BEHIND: 1}
        assert pods.observer.repairs == 1


@pytest.mark.parametrize("watch_list", ["on", "off"])
async def test_an_object_that_cant_be_read_is_skipped_by_name(
    kube: FakeKubeApi, client: KubeClient, watch_list: str
) -> None:
    kube.watch_list = "on" if watch_list == "on" else "off"
    await kube.create(pod("good"))
    put_unreadable(kube, "bad")

    with capture_logs() as logs:
        async with watched_pods(client) as pods:
            await pods.until("good")
            put_unreadable(kube, "worse")
            await kube.create(pod("last"))
            await pods.until("good", "last")

    skipped = [line["object"] for line in logs if line["event"].startswith("object can't be read")]
    assert skipped == ["models/bad", "models/worse"]


async def test_an_object_that_cant_be_read_any_more_stays_as_it_was(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(pod("a"))

    async with watched_pods(client) as pods:
        await pods.until("a")
        put_unreadable(kube, "a")
        await pods.until_failed(WatchErrorKind.DECODE)
        await kube.create(pod("theirs", {"app": "other"}))
        await kube.restart()
        await eventually(lambda: pods.observer.relists[RelistReason.EXPIRED] == 1)
        assert pods.names == {"a"}
        await kube.delete(pod("a"), grace_seconds=0)
        await pods.until()


async def test_an_object_that_cant_be_read_is_told_once_however_often_it_changes(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    with capture_logs() as logs:
        async with watched_pods(client) as pods:
            await pods.until()
            for ip in ("10.0.0.1", "10.0.0.2", "10.0.0.3"):
                put_unreadable(kube, "bad", ip=ip)
            await pods.until_failed(WatchErrorKind.DECODE, 3)
            await kube.create(pod("theirs", {"app": "other"}))
            await kube.restart()
            await pods.until_failed(WatchErrorKind.DECODE, 4)
            await kube.delete(pod("bad"), grace_seconds=0)
            await kube.create(pod("bad"))
            await pods.until("bad")
            put_unreadable(kube, "bad")
            await kube.create(pod("last"))
            await pods.until("bad", "last")

    skipped = [line["object"] for line in logs if line["event"].startswith("object can't be read")]
    assert skipped == ["models/bad", "models/bad"]


async def test_a_pod_without_uid_is_skipped_since_it_could_not_be_told_from_others(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    nameless = {"type": "ADDED", "object": {"kind": "Pod", "metadata": {"name": "nobody"}}}

    async with watched_pods(client) as pods:
        await pods.until()
        kube.inject(json.dumps(nameless).encode() + b"\n")
        await kube.create(pod("a"))
        await pods.until("a")


async def test_an_object_nested_too_deep_ends_the_watch_and_not_the_reflector(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(pod("a"))

    async with watched_pods(client) as pods:
        await pods.until("a")
        kube.inject(b'{"type": "ADDED", "object": ' + b"[" * 5000 + b"]" * 5000 + b"}\n")
        await pods.until_failed(WatchErrorKind.DECODE)
        await kube.create(pod("b"))
        await pods.until("a", "b")


@pytest.mark.parametrize(
    ("watch_list", "limits", "told"),
    [
        ("off", {"page_size": 1, "max_pages": 2}, "the list has more than 2 pages"),
        ("off", {"page_size": 1, "max_objects": 2}, "there are more than 2 objects"),
        ("on", {"max_objects": 2}, "there are more than 2 objects"),
    ],
    ids=["pages", "objects of pages", "objects of a watch"],
)
async def test_a_list_without_an_end_is_given_up_and_what_is_known_stays(
    kube: FakeKubeApi,
    client: KubeClient,
    watch_list: Literal["on", "off"],
    limits: dict[str, int],
    told: str,
) -> None:
    kube.watch_list = watch_list
    await kube.create(pod("a"))
    await kube.create(pod("b"))

    async with watched_pods(client, impatient(**limits)) as pods:
        await pods.until("a", "b")
        await kube.kill()
        await kube.create(pod("c"))
        await kube.start()
        await pods.until_failed(WatchErrorKind.DECODE)
        assert told in str(pods.reflector.problem)
        assert pods.names == {"a", "b"}
        await kube.delete(pod("b"), grace_seconds=0)
        await pods.until("a", "c")


async def test_a_watch_that_trickles_past_its_time_is_not_followed_for_ever(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    settings = impatient(watch_seconds=(0.1, 0.1), watch_grace=0.1)

    async def trickle() -> None:
        while True:
            kube.inject(b" ")
            await asyncio.sleep(0.01)

    async with watched_pods(client, settings) as pods, running(trickle()):
        await pods.until()
        kube.is_mute = True
        await eventually(lambda: len(kube.requests("watch", "pods")) > 2)

        assert pods.observer.failures.total() == 0


async def test_a_list_that_trickles_is_asked_for_anew(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.create(pod("a"))
    kube.watch_list = "off"
    kube.list_gap = 0.02

    async with watched_pods(client, impatient(page_timeout=0.2)) as pods:
        await pods.until_failed(WatchErrorKind.UNREACHABLE)
        kube.list_gap = 0.0
        await pods.until("a")


async def test_versions_that_always_expire_are_relisted_less_and_less_often(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    kube.watch_list = "off"
    kube.fail(410, reason="Expired", when=lambda seen: "resourceVersion" in seen.query)
    settings = impatient(relist_spread=0.0, first_pause=1000.0, longest_pause=1000.0)

    async with watched_pods(client, settings) as pods:
        await pods.until_failed(WatchErrorKind.EXPIRED, 2)

        # The first time is taken for a restart of the API server, the second is not.
        assert pods.observer.relists.total() == 2
        assert pods.observer.failures[WatchErrorKind.EXPIRED] == 2


@pytest.mark.parametrize(
    "line",
    [
        b"<html>\n",
        b'{"type": "ADDED"\n',
        b'{"type": 1}\n',
        b'{"type": "RENAMED", "object": {}}\n',
        b'{"type": "DELETED", "object": 1}\n',
        b'{"type": "ERROR", "object": []}\n',
        b"x" * 2000,
    ],
    ids=["html", "cut", "no event", "unknown type", "no object", "no status", "endless"],
)
async def test_a_line_that_is_no_event_ends_the_watch(
    kube: FakeKubeApi, client: KubeClient, line: bytes
) -> None:
    await kube.create(pod("a"))

    async with watched_pods(client, impatient(max_line_bytes=1500)) as pods:
        await pods.until("a")
        kube.inject(line)
        await pods.until_failed(WatchErrorKind.DECODE)
        await kube.create(pod("b"))
        await pods.until("a", "b")

        assert pods.told() == ["+a", "+b"]


@pytest.mark.parametrize(
    "break_",
    [
        lambda kube: kube.inject(b'{"type": "ADDED", "object": {"metadata": {"name": "half'),
        lambda kube: kube.send_error(410, "Expired"),
        lambda kube: kube.fail(429, verb="watch", times=1),
    ],
    ids=["half a line", "expired", "throttled"],
)
async def test_no_fault_makes_a_pod_come_twice(
    kube: FakeKubeApi, client: KubeClient, break_: Callable[[FakeKubeApi], Any]
) -> None:
    await kube.create(pod("a"))

    async with watched_pods(client) as pods:
        await pods.until("a")
        break_(kube)
        kube.end_watches()
        await kube.create(pod("b"))
        await kube.patch(pod("b"), pod_status("10.0.0.2"), "/status")
        await kube.delete(pod("a"), grace_seconds=0)
        await pods.until("b")

        assert [told for told in pods.told() if told in ("+a", "-a")] == ["+a", "-a"]
        assert pods.told().count("+b") == 1


def put_unreadable(kube: FakeKubeApi, name: str, *, ip: str = "10.0.0.1") -> None:
    """A pod whose labels are no mapping of strings."""
    manifest = {**pod(name), **pod_status(ip)}
    manifest["metadata"] = {**manifest["metadata"], "labels": {"app": "llama", "number": 1}}
    with pytest.raises(msgspec.ValidationError):
        objects.decode_pod(json.dumps(manifest).encode())
    kube.store.put_unchecked(target_of(manifest), manifest)
