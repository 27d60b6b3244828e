from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from epp.gateway.health import HealthConditions, HealthState, ServingStatus

SERVING, NOT_SERVING = ServingStatus.SERVING, ServingStatus.NOT_SERVING
READINESS = [
    "",
    "readiness",
    "envoy.service.ext_proc.v3.ExternalProcessor",
    "inference-extension",
]
READY = HealthConditions(is_synced=True)
READY_LEADER = HealthConditions(is_synced=True, has_election=True, is_leader=True)

UNREADY = {
    "not synced": HealthConditions(),
    "pool gone": HealthConditions(is_pool_gone=True),
    "protocol": HealthConditions(is_synced=True, is_protocol_supported=False),
    "draining": HealthConditions(is_synced=True, is_draining=True),
    "follower": HealthConditions(is_synced=True, has_election=True),
    "draining leader": HealthConditions(
        is_synced=True, has_election=True, is_leader=True, is_draining=True
    ),
}


@pytest.mark.parametrize("service", READINESS)
@pytest.mark.parametrize("conditions", [READY, READY_LEADER], ids=["alone", "leader"])
def test_a_ready_replica_serves_under_every_readiness_name(
    conditions: HealthConditions, service: str
) -> None:
    assert conditions.status_of(service) is SERVING
    assert conditions.not_ready_reasons() == []


@pytest.mark.parametrize("service", READINESS)
@pytest.mark.parametrize("conditions", UNREADY.values(), ids=UNREADY)
def test_anything_in_the_way_is_not_serving_under_every_readiness_name(
    conditions: HealthConditions, service: str
) -> None:
    assert conditions.status_of(service) is NOT_SERVING
    assert conditions.not_ready_reasons()


@pytest.mark.parametrize("conditions", UNREADY.values(), ids=UNREADY)
def test_liveness_is_serving_whatever_happens(conditions: HealthConditions) -> None:
    assert conditions.status_of("liveness") is SERVING


@pytest.mark.parametrize("conditions", [READY, UNREADY["not synced"]], ids=["ready", "unready"])
def test_an_unknown_name_is_readiness_without_election(conditions: HealthConditions) -> None:
    assert conditions.status_of("stranger") is conditions.status_of("readiness")


def test_an_unknown_name_is_unknown_with_election() -> None:
    assert READY_LEADER.status_of("stranger") is ServingStatus.SERVICE_UNKNOWN


def test_leadership_does_not_matter_without_election() -> None:
    assert HealthConditions(is_synced=True, is_leader=False).status_of("") is SERVING


def test_every_known_name_is_listed() -> None:
    assert set(READY.statuses()) == {*READINESS, "liveness"}


def test_each_reason_is_named() -> None:
    worst = HealthConditions(
        has_election=True,
        is_protocol_supported=False,
        is_draining=True,
    )

    assert worst.not_ready_reasons() == [
        "the pool has not been read yet",
        "not every parser speaks the pool's appProtocol",
        "this replica is not the leader",
        "shutting down",
    ]


def test_a_pool_that_is_gone_is_told_from_one_that_was_never_read() -> None:
    assert UNREADY["pool gone"].not_ready_reasons() == ["the pool is gone"]
    assert UNREADY["not synced"].not_ready_reasons() == ["the pool has not been read yet"]


async def test_each_setter_changes_its_condition_and_wakes_watchers() -> None:
    state = HealthState(has_election=True)

    changes: list[Callable[[], None]] = [
        partial(state.set_synced, True),
        partial(state.set_synced, True, is_pool_gone=True),
        partial(state.set_leader, True),
        partial(state.set_protocol_supported, False),
        state.set_draining,
    ]
    for change in changes:
        watcher = asyncio.ensure_future(state.changed())
        await asyncio.sleep(0)
        change()
        await watcher

    assert state.conditions == HealthConditions(
        has_election=True,
        is_synced=True,
        is_pool_gone=True,
        is_leader=True,
        is_protocol_supported=False,
        is_draining=True,
    )


async def test_setting_what_is_already_so_wakes_nobody() -> None:
    state = HealthState()
    state.set_synced(True)
    watcher = asyncio.ensure_future(state.changed())
    await asyncio.sleep(0)

    state.set_synced(True)
    await asyncio.sleep(0)

    assert not watcher.done()
    state.close()
    await watcher


async def test_a_closed_state_keeps_nobody_waiting() -> None:
    state = HealthState()
    state.close()

    await state.changed()


def test_a_leader_that_can_not_hold_the_lease_any_more_is_not_ready_before_it_is_told() -> None:
    holds_lease = True
    state = HealthState(has_election=True)
    state.set_synced(True)
    state.doubt_leader(lambda: holds_lease)
    assert state.not_ready_reasons() == ["this replica is not the leader"]
    state.set_leader(True)
    assert state.conditions.status_of("") is SERVING

    holds_lease = False

    assert state.conditions.status_of("") is NOT_SERVING
    assert state.not_ready_reasons() == ["this replica is not the leader"]
