from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from epp.framework.data import Input
from epp.framework.data_types import PREFIX_MATCH, PrefixMatch
from epp.framework.endpoint import Endpoint
from epp.framework.errors import Rejection
from epp.framework.flow_control import SaturationDetector
from epp.framework.headers import Headers
from epp.framework.request import InferenceRequest
from epp.framework.scheduling_results import ProfileResult, SchedulingResult
from epp.observability.metrics import Metrics
from epp.request_control.admission import (
    prefers_available,
    require_available_cache,
    shed_at_saturation,
)
from epp.request_control.hooks import Hooks
from epp.request_control.parsing import ParserSelector
from epp.request_control.plan import RequestPlan
from epp.request_control.request_hooks import HookRunner
from epp.scheduling.profile import SchedulerProfile
from epp.scheduling.scheduler import ProfileScheduler
from epp.testing import endpoint_of, put, request_of
from tests.fakes.plugins.scheduling import PicksBest, RunsInOrder

A, B = endpoint_of("e1"), endpoint_of("e2")
IF_AVAILABLE = {"prefer": "if-available"}


class Saturated(SaturationDetector):
    """Says how saturated endpoints are, and remembers which ones it was asked for."""

    def __init__(self, saturation: float) -> None:
        self._saturation = saturation
        self.asked: list[Endpoint] = []

    def saturation(self, endpoints: Sequence[Endpoint]) -> float:
        self.asked += endpoints
        return self._saturation


def plan(*, detector: SaturationDetector | None = None, reads_matches: bool = True) -> RequestPlan:
    matches: Input[PrefixMatch] = Input(PREFIX_MATCH)
    matches.bind(PREFIX_MATCH.default_producer)
    return RequestPlan(
        parsers=ParserSelector([]),
        hooks=HookRunner(Hooks(), Metrics()),
        scheduler=ProfileScheduler([SchedulerProfile("p", picker=PicksBest())], RunsInOrder(["p"])),
        saturation_detector=detector,
        prefix_match=matches if reads_matches else None,
    )


@pytest.mark.parametrize(
    ("priority", "saturation", "shed"),
    [(-1, 1.0, True), (-1, 1.7, True), (-1, 0.99, False), (0, 9.0, False), (1, 9.0, False)],
)
def test_negative_priorities_are_shed_when_there_is_no_room(
    priority: int, saturation: float, shed: bool
) -> None:
    detector = Saturated(saturation)
    request = request_of(priority=priority)
    if not shed:
        shed_at_saturation(request, [A, B], plan(detector=detector))
        return

    with pytest.raises(Rejection) as rejected:
        shed_at_saturation(request, [A, B], plan(detector=detector))

    assert rejected.value.http_status == 429
    assert rejected.value.drop_reason == "rejected-saturated"
    assert rejected.value.retry_after == 1
    assert detector.asked == [A, B]


def test_without_a_detector_nothing_is_shed() -> None:
    shed_at_saturation(request_of(priority=-9), [A], plan())


@pytest.mark.parametrize(
    ("values", "prefers"),
    [
        ([b"if-available"], True),
        ([b"respond-async, If-Available;q=1"], True),
        ([b" IF-AVAILABLE "], True),
        ([b"respond-async", b"if-available"], True),
        ([b"if-available", b"respond-async"], True),
        ([b"not-if-available"], False),
        ([b"respond-async; if-available"], False),
        ([b"\xff,if-available"], True),
        ([b""], False),
        ([], False),
    ],
)
def test_the_token_is_found_in_any_prefer_header(values: list[bytes], prefers: bool) -> None:
    headers = Headers([("prefer", value) for value in values] + [("accept", b"if-available")])

    assert prefers_available(headers) is prefers


def picked(endpoint: Endpoint, candidates: Sequence[Endpoint] = (A, B)) -> SchedulingResult:
    result = ProfileResult(endpoints=(endpoint,), candidates=candidates)
    return SchedulingResult(primary="decode", profiles={"decode": result})


def matched(blocks: int, endpoint: Endpoint = A) -> InferenceRequest:
    """A request that wants a cache, with one endpoint's match."""
    request = request_of(headers=IF_AVAILABLE)
    put(PREFIX_MATCH, request, {endpoint: PrefixMatch(blocks, 4, 64)})
    return request


def test_a_pick_that_holds_some_of_the_prompt_is_available() -> None:
    require_available_cache(matched(1), picked(A), plan())


def test_a_pick_behind_a_sidecar_is_known_by_its_id() -> None:
    behind = replace(A, port=9000, address="10.0.0.1:9000")

    require_available_cache(matched(1), picked(behind), plan())
    require_available_cache(matched(1), picked(A, candidates=()), plan())


@pytest.mark.parametrize(
    ("request_", "endpoint"),
    [(matched(0), A), (matched(3), B), (request_of(headers=IF_AVAILABLE), A)],
    ids=["nothing of it", "another one holds it", "no producer wrote anything"],
)
def test_a_pick_that_does_not_is_412(request_: InferenceRequest, endpoint: Endpoint) -> None:
    with pytest.raises(Rejection) as rejected:
        require_available_cache(request_, picked(endpoint), plan())

    assert rejected.value.http_status == 412
    assert rejected.value.drop_reason is None


def test_without_a_producer_of_matches_nothing_is_available() -> None:
    with pytest.raises(Rejection):
        require_available_cache(matched(1), picked(A), plan(reads_matches=False))


def test_who_does_not_ask_gets_any_endpoint() -> None:
    require_available_cache(request_of(), picked(B), plan())
