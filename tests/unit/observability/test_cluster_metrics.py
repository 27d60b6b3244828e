from __future__ import annotations

import pytest

from epp.observability.metrics import Metrics
from tests.fakes.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics(clock: Clock) -> Metrics:
    return Metrics(now=clock)


def lines(metrics: Metrics, name: str) -> list[str]:
    slices, _ = metrics.exposition()
    page = b"".join(slices).decode()
    return [line for line in page.splitlines() if line.startswith(name)]


def test_the_age_of_the_last_contact_grows_until_the_next_one(
    metrics: Metrics, clock: Clock
) -> None:
    metrics.cluster.contacted("pods")
    clock.now += 30
    assert lines(metrics, "epp_informer_last_contact_seconds") == [
        'epp_informer_last_contact_seconds{resource="pods"} 30.0'
    ]

    metrics.cluster.contacted("pods")

    assert lines(metrics, "epp_informer_last_contact_seconds") == [
        'epp_informer_last_contact_seconds{resource="pods"} 0.0'
    ]


def test_what_is_followed_no_more_is_not_said_to_be_silent(metrics: Metrics, clock: Clock) -> None:
    metrics.cluster.contacted("inferencepools")
    metrics.cluster.contacted("pods")
    metrics.cluster.synced("pods", False)
    clock.now += 30

    assert lines(metrics, "epp_informer_last_contact_seconds") == [
        'epp_informer_last_contact_seconds{resource="inferencepools"} 30.0'
    ]


def test_a_resource_that_loses_its_sync_is_shown_as_unsynced(metrics: Metrics) -> None:
    metrics.cluster.synced("pods", True)
    metrics.cluster.synced("pods", False)

    assert lines(metrics, "epp_informer_synced") == ['epp_informer_synced{resource="pods"} 0']


def test_what_watches_tell_is_counted_by_resource(metrics: Metrics) -> None:
    metrics.cluster.event_received("pods", "ADDED")
    metrics.cluster.event_received("pods", "ADDED")
    metrics.cluster.event_received("inferencepools", "MODIFIED")
    metrics.cluster.relisted("pods", "expired")
    metrics.cluster.watch_failed("pods", "forbidden")
    metrics.cluster.repaired("pods", 3)

    assert lines(metrics, "epp_informer_events_total") == [
        'epp_informer_events_total{resource="pods",type="ADDED"} 2',
        'epp_informer_events_total{resource="inferencepools",type="MODIFIED"} 1',
    ]
    assert lines(metrics, "epp_informer_relists") == [
        'epp_informer_relists_total{resource="pods",reason="expired"} 1'
    ]
    assert lines(metrics, "epp_informer_watch_errors") == [
        'epp_informer_watch_errors_total{resource="pods",kind="forbidden"} 1'
    ]
    assert lines(metrics, "epp_informer_repairs") == [
        'epp_informer_repairs_total{resource="pods"} 3'
    ]


def test_what_was_never_read_shows_it_from_the_first_failure_on(metrics: Metrics) -> None:
    metrics.cluster.watch_failed("inferencepools", "unreachable")
    metrics.cluster.synced("pods", True)
    metrics.cluster.watch_failed("pods", "unreachable")

    assert lines(metrics, "epp_informer_synced") == [
        'epp_informer_synced{resource="inferencepools"} 0',
        'epp_informer_synced{resource="pods"} 1',
    ]


def test_repairs_have_their_zero_once_a_resource_is_known(metrics: Metrics) -> None:
    metrics.cluster.synced("pods", True)

    assert lines(metrics, "epp_informer_repairs") == [
        'epp_informer_repairs_total{resource="pods"} 0'
    ]


def test_problems_of_the_pool_are_counted_from_zero(metrics: Metrics) -> None:
    metrics.cluster.pool_gone()

    assert lines(metrics, "epp_pool_problems") == [
        'epp_pool_problems_total{kind="invalid"} 0',
        'epp_pool_problems_total{kind="gone"} 1',
    ]


def test_who_leads_is_shown_only_where_a_leader_is_elected(metrics: Metrics) -> None:
    assert lines(metrics, "epp_leader") == []

    metrics.cluster.leads(False)

    assert lines(metrics, "epp_leader") == ["epp_leader 0"]


def test_pods_without_an_endpoint_are_counted_when_the_page_is_written() -> None:
    pods: list[str] = []
    metrics = Metrics(unmatched_pods=lambda: len(pods))
    pods.append("a")

    assert lines(metrics, "epp_unmatched_pods") == ["epp_unmatched_pods 1"]
