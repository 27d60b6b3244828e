from __future__ import annotations

import gc
from collections import deque
from types import ModuleType

import pytest

from epp.app.request_path import RequestPathSettings
from epp.framework.errors import ErrorCode, PlainRejection, Rejection
from epp.framework.headers import Headers
from epp.framework.request import InferenceRequest, TerminationCause
from epp.framework.scheduling_results import FilterResult, ProfileResult
from epp.framework.trail import Trail
from epp.request_control.decision_log import (
    ENDPOINTS_PER_ROW,
    MOST_NAME,
    MOST_UNREAD,
    ROWS_PER_DECISION,
    DecisionLog,
)
from epp.testing import request_of
from tests.fakes.pickers.decided import Decided, incoming


def kept(size: int) -> Decided:
    return Decided(settings=RequestPathSettings(decision_log_size=size))


def serve(picker: Decided, request_id: str, prompt: str = "a") -> None:
    request = incoming({"model": "m", "prompt": prompt}, {"x-request-id": request_id})
    picker.decide(request).end(TerminationCause.NATURAL)


def test_the_last_decisions_are_kept_newest_first() -> None:
    picker = kept(3)

    for number in range(5):
        serve(picker, f"r{number}")

    assert [each.request_id for each in picker.log.last(9)] == ["r4", "r3", "r2"]
    assert [each.request_id for each in picker.log.last(1)] == ["r4"]
    assert len(picker.log) == 3


def test_a_request_is_found_by_its_id_however_often_it_came() -> None:
    picker = kept(9)
    for request_id in ("a", "b", "a"):
        serve(picker, request_id)

    found = picker.log.find("a")

    assert [each.request_id for each in found] == ["a", "a"]
    assert found[0].decided_at > found[1].decided_at
    assert picker.log.find("c") == ()


def test_a_decision_tells_what_it_was_made_of() -> None:
    picker = kept(9)

    active = picker.decide(incoming(headers={"x-request-id": "a"}, subset=["10.0.0.1", "10.0.0.2"]))

    [decision] = picker.log.last(1)
    assert decision.result is active.result
    assert decision.endpoints == active.endpoints
    assert (decision.path, decision.model, decision.target_model) == ("/v1/completions", "m", "m")
    trail = decision.trail
    assert trail is not None
    assert trail.pool == picker.datastore.snapshot().endpoints
    for those in (trail.located, trail.found, trail.screened):
        assert those is not None
        assert [each.address for each in those] == ["10.0.0.1:8000", "10.0.0.2:8000"]
    assert decision.started_at is not None
    assert decision.scheduling_at is not None
    assert (
        decision.received_at <= decision.started_at <= decision.scheduling_at <= decision.decided_at
    )


def test_names_that_clients_chose_are_cut() -> None:
    picker = kept(9)

    serve(picker, "i" * 100_000)

    [decision] = picker.log.find("i" * 100_000)
    assert decision.request_id == "i" * MOST_NAME


def test_large_pools_share_the_room_of_small_ones() -> None:
    many = ROWS_PER_DECISION - 6
    addresses = [f"10.0.{number // 250}.{number % 250 + 1}:8000" for number in range(2 * many)]
    picker = Decided(addresses, settings=RequestPathSettings(decision_log_size=8))

    for number in range(8):
        serve(picker, f"r{number}")

    assert len(picker.log) == 4


def test_what_filters_left_takes_room_too() -> None:
    log = DecisionLog(8)
    [endpoint, *_] = Decided().datastore.snapshot().endpoints
    many = [endpoint] * ROWS_PER_DECISION
    filters = [FilterResult("f", many, many)] * 2 * ENDPOINTS_PER_ROW
    profile = ProfileResult(endpoints=(endpoint,), candidates=many, filters=filters)
    request = request_of()
    request.trail = Trail(started_at=0.0, screened=many, unpicked=(("a", profile),))

    for _ in range(8):
        log.failed_open(request, 0.0, (endpoint,), "a fault")

    assert len(log) == 2


def test_one_decision_is_kept_however_large_it_is() -> None:
    addresses = [f"10.0.{number // 250}.{number % 250 + 1}:8000" for number in range(600)]
    picker = Decided(addresses, settings=RequestPathSettings(decision_log_size=1))

    serve(picker, "a")
    serve(picker, "b")

    assert [each.request_id for each in picker.log.last(9)] == ["b"]


def test_nothing_is_kept_where_nothing_is_to_be_kept() -> None:
    picker = kept(0)

    serve(picker, "a")

    assert picker.path.decisions is None


def test_a_rejection_is_told_without_keeping_the_error() -> None:
    log = DecisionLog(3)
    rejection = PlainRejection(ErrorCode.RESOURCE_EXHAUSTED, "full " * 1000)

    log.rejected(request_of(), 0.0, rejection)

    [decision] = log.last(1)
    assert decision.refusal is not None
    assert (decision.refusal.status, decision.refusal.code) == (429, "ResourceExhausted")
    assert decision.refusal.details == "epp_resource_exhausted"
    assert len(decision.refusal.message) == 1024


def test_what_a_rejection_says_to_its_client_alone_is_not_kept() -> None:
    log = DecisionLog(3)

    log.rejected(request_of(), 0.0, Rejection(ErrorCode.BAD_REQUEST, "not s3cr3t"))
    log.rejected(
        request_of(), 0.0, Rejection(ErrorCode.BAD_REQUEST, "not s3cr3t", log_message="not that")
    )

    kept = [decision.refusal.message for decision in log.last(2) if decision.refusal is not None]
    assert kept == ["not that", "BadRequest"]


def overloaded() -> PlainRejection:
    return PlainRejection(ErrorCode.SERVICE_UNAVAILABLE, "overloaded", details="overloaded")


def headers_of(request_id: str) -> Headers:
    return Headers([(":path", b"/v1/embeddings?a=b"), ("x-request-id", request_id.encode())])


def test_what_was_turned_away_unread_is_found_by_its_headers() -> None:
    log = DecisionLog(3)

    log.turned_away(headers_of("a"), 0.0, overloaded())

    [decision] = log.find("a")
    assert (decision.path, decision.trail) == ("/v1/embeddings", None)
    assert decision.refusal is not None
    assert (decision.refusal.status, decision.refusal.details) == (503, "epp_overloaded")
    assert len(log) == 1


def test_a_flood_that_is_answered_unread_pushes_no_decision_out() -> None:
    picker = kept(200)
    serve(picker, "before")

    for number in range(500):
        picker.path.director.best_effort(incoming(), "overload").end(TerminationCause.NATURAL)
        picker.log.turned_away(headers_of(f"r{number}"), 0.0, overloaded())
    serve(picker, "after")

    assert [each.request_id for each in picker.log.last(2)] == ["after", "r499"]
    assert len(picker.log.find("before")) == 1
    assert len(picker.log) == MOST_UNREAD + 2


def test_what_has_no_headers_that_could_be_read_has_neither_id_nor_path() -> None:
    log = DecisionLog(3)

    log.turned_away(Headers(), 0.0, overloaded())

    [decision] = log.last(1)
    assert (decision.request_id, decision.path) == ("", "")


def test_the_pick_of_fail_open_is_told_with_its_reason() -> None:
    picker = kept(3)

    picker.path.director.best_effort(incoming(), "overload").end(TerminationCause.NATURAL)

    [decision] = picker.log.last(1)
    assert (decision.result, decision.note) == (None, "fail open (overload)")
    assert len(decision.endpoints) == 1


def reachable_from(start: object) -> list[object]:
    seen: set[int] = set()
    found: list[object] = []
    waiting = deque([start])
    while waiting:
        each = waiting.popleft()
        if id(each) in seen or isinstance(each, type | ModuleType):
            continue
        seen.add(id(each))
        found.append(each)
        waiting += gc.get_referents(each)
    return found


def test_nothing_that_is_kept_leads_to_a_prompt_or_a_header() -> None:
    picker = kept(3)
    request = incoming({"model": "m", "prompt": "secret " * 50}, {"authorization": "Bearer secret"})
    picker.decide(request).end(TerminationCause.NATURAL)
    with pytest.raises(Rejection):
        picker.decide(incoming(b"{", {"authorization": "Bearer secret"}))

    reachable = [each for decision in picker.log.last(9) for each in reachable_from(decision)]

    assert not [each for each in reachable if isinstance(each, Headers | InferenceRequest)]
    assert not [each for each in reachable if isinstance(each, str) and "secret" in each]
    assert not [each for each in reachable if isinstance(each, bytes) and b"secret" in each]
