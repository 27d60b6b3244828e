"""Decision 1, cell by cell: what each failure means in FailClose and in FailOpen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from epp.app.request_path import RequestPathSettings
from epp.datastore.inference_pool import FailureMode
from epp.framework.endpoint import Endpoint
from epp.framework.errors import DropReason, ErrorCode, Rejection
from epp.framework.request import InferenceRequest
from epp.framework.request_control import (
    Admitter,
    DataProducer,
    PreRequest,
    RequestHeader,
    Screener,
)
from epp.framework.scheduling_results import SchedulingResult
from epp.gateway.overload import OverloadLimits
from epp.request_control.director_settings import DirectorSettings
from epp.request_control.hooks import Hooks
from tests.fakes.clock import Clock
from tests.fakes.eventually import eventually
from tests.fakes.pickers.gateway_client import COMPLETIONS, Answer
from tests.fakes.pickers.picker import Picker, pods, pool, running_picker
from tests.fakes.plugins.failing import BrokenProducer, BrokenScreener, LateProducer

BODY = b'{"model":"m","prompt":"a"}'
ONE = "10.0.0.1:8000"
LONG_PIECE = b"0123456789" * 6300
BOTH = pytest.mark.parametrize("mode", list(FailureMode))


async def answer_to(picker: Picker, body: bytes = BODY, headers: Any = None) -> Answer:
    """First answer to a request; of a routed one the rest is read, too."""
    exchange = picker.exchange()
    await exchange.post(body, headers)
    answer = await exchange.answer()
    if answer.kind == "request_headers":
        returned = await exchange.answer()
        assert (returned.body, returned.end) == (body, True)
    exchange.cancel()
    await picker.settled()
    return answer


class BrokenScheduler:
    """Raises what it is given."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def schedule(
        self, request: InferenceRequest, candidates: Sequence[Endpoint]
    ) -> SchedulingResult:
        raise self.error


@BOTH
async def test_no_ready_endpoint_is_503(mode: FailureMode) -> None:
    async with running_picker((), failure_mode=mode) as picker:
        answer = await answer_to(picker)
        assert (answer.status, answer.details) == (503, "epp_rejected_no_endpoints")


async def test_request_log_and_access_log_name_a_rejection_alike() -> None:
    async with running_picker(()) as picker:
        answer = await answer_to(picker)
        assert [record.details for record in picker.records.all] == [answer.details]


@BOTH
async def test_all_candidates_filtered_out_is_429(mode: FailureMode) -> None:
    filtered = BrokenScheduler(
        Rejection(
            ErrorCode.RESOURCE_EXHAUSTED,
            "no endpoints available for the given request",
            drop_reason=DropReason.SATURATED,
            retry_after=1,
        )
    )
    async with running_picker(failure_mode=mode, scheduler=filtered) as picker:
        answer = await answer_to(picker)
        assert answer.status == 429
        assert answer.set_headers["x-llm-d-request-dropped-reason"] == b"rejected-saturated"
        assert answer.set_headers["retry-after"] == b"1"


class NobodyScreener(Screener):
    type = "nobody"

    def screen(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        return []


@BOTH
async def test_all_candidates_screened_out_is_503(mode: FailureMode) -> None:
    hooks = Hooks(screener=(NobodyScreener(),))
    async with running_picker(failure_mode=mode, hooks=hooks) as picker:
        answer = await answer_to(picker)
        assert answer.status == 503
        assert answer.body is not None
        assert answer.body.endswith(b"screeners eliminated all endpoint candidates")
        assert answer.set_headers["x-llm-d-request-dropped-reason"] == b"rejected-no-endpoints"


@BOTH
async def test_a_producer_that_raises_or_is_late_costs_its_data_only(mode: FailureMode) -> None:
    late = LateProducer()
    hooks = Hooks(data_producer=(BrokenProducer(), late))
    async with running_picker(failure_mode=mode, hooks=hooks) as picker:
        assert (await answer_to(picker)).destination == ONE
        assert late.cancellations == 1
        for kind in ("broken-producer", "late-producer"):
            assert picker.metric("epp_plugin_errors_total", plugin_type=kind) == 1
        assert picker.metric("epp_fail_open_total") == 0


async def test_a_pipeline_that_raises_is_503_in_fail_close() -> None:
    async with running_picker(scheduler=BrokenScheduler(RuntimeError("bug"))) as picker:
        answer = await answer_to(picker)
        assert (answer.status, answer.details) == (503, "epp_internal")
        assert answer.body == (
            b"inference error: ServiceUnavailable - internal error while picking an endpoint"
        )


async def test_a_pipeline_that_raises_is_a_best_effort_pick_in_fail_open() -> None:
    async with running_picker(
        (ONE, "10.0.0.2:8000"),
        failure_mode=FailureMode.FAIL_OPEN,
        scheduler=BrokenScheduler(RuntimeError("bug")),
    ) as picker:
        picker.endpoint(ONE).load.acquire()
        exchange = picker.exchange()
        await exchange.post(BODY, {"x-llm-d-model-name-rewrite": "other"})
        head, body = await exchange.answers(2)
        assert head.destination == "10.0.0.2:8000"
        assert body.body == BODY
        assert picker.metric("epp_fail_open_total", reason="internal") == 1
        exchange.cancel()
        picker.endpoint(ONE).load.release()
        await picker.settled()


async def test_best_effort_stays_within_the_subset() -> None:
    async with running_picker(
        (ONE, "10.0.0.2:8000"),
        failure_mode=FailureMode.FAIL_OPEN,
        hooks=Hooks(screener=(BrokenScreener(),)),
    ) as picker:
        subset = {"envoy.lb.subset_hint": {"x-gateway-destination-endpoint-subset": [ONE]}}
        for _ in range(4):
            exchange = picker.exchange()
            await exchange.post(BODY, metadata=subset)
            assert await exchange.picked() == ONE
            exchange.cancel()
        await picker.settled()


class SlowProducer(DataProducer):
    type = "slow-producer"

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        self.clock.now += 6


@BOTH
async def test_a_synchronous_step_that_passes_the_deadline(mode: FailureMode) -> None:
    clock = Clock()
    hooks = Hooks(data_producer=(SlowProducer(clock),))
    async with running_picker(failure_mode=mode, hooks=hooks, now=clock) as picker:
        assert_deadline(await answer_to(picker), picker, mode)


class SleepyProducer(LateProducer):
    type = "sleepy-producer"
    timeout_seconds = 60.0


@BOTH
async def test_an_asynchronous_step_that_passes_the_deadline(mode: FailureMode) -> None:
    settings = RequestPathSettings(director=DirectorSettings(decision_timeout=0.02))
    hooks = Hooks(data_producer=(SleepyProducer(),))
    async with running_picker(failure_mode=mode, hooks=hooks, settings=settings) as picker:
        with capture_logs() as logs:
            assert_deadline(await answer_to(picker), picker, mode)

    (told,) = [line for line in logs if line["event"] == "picking failed"]
    assert told["error"].endswith(".DeadlinePassed")
    assert told["request_id"] == "t-1"
    assert "in produce" in told["exception"]


def assert_deadline(answer: Answer, picker: Picker, mode: FailureMode) -> None:
    if mode is FailureMode.FAIL_CLOSE:
        assert (answer.status, answer.details) == (503, "epp_deadline")
    else:
        assert answer.destination == ONE
        assert picker.metric("epp_fail_open_total", reason="deadline") == 1


class Denying(RequestHeader, Admitter, PreRequest):
    """Raises the same error wherever it is asked."""

    type = "denying"

    def __init__(self, error: Exception) -> None:
        self.error = error

    def request_header(self, request: InferenceRequest) -> None:
        raise self.error

    def admit(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        raise self.error

    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        raise self.error


def at(point: str, hook: Denying) -> Hooks:
    return {
        "request_header": Hooks(request_header=(hook,)),
        "admitter": Hooks(admitter=(hook,)),
        "pre_request": Hooks(pre_request=(hook,)),
    }[point]


@BOTH
@pytest.mark.parametrize("point", ["request_header", "admitter", "pre_request"])
async def test_a_typed_error_of_a_plugin_keeps_its_status(mode: FailureMode, point: str) -> None:
    hook = Denying(Rejection(ErrorCode.RESOURCE_EXHAUSTED, "busy"))
    hooks = at(point, hook)
    async with running_picker(failure_mode=mode, hooks=hooks) as picker:
        answer = await answer_to(picker)
        assert answer.status == 429
        assert answer.body is not None
        assert answer.body.endswith(b"busy")
        if point == "admitter":
            assert answer.body == (
                b"inference error: ResourceExhausted - request cannot be admitted: busy"
            )
            assert answer.set_headers["x-llm-d-request-dropped-reason"] == b"rejected-saturated"


@pytest.mark.parametrize("point", ["request_header", "admitter", "pre_request"])
async def test_an_untyped_error_of_a_plugin_that_decides_is_500(point: str) -> None:
    hooks = at(point, Denying(ValueError("no")))
    async with running_picker(hooks=hooks) as picker:
        answer = await answer_to(picker)
        assert (answer.status, answer.details) == (500, "epp_internal")


async def test_two_failing_pre_request_plugins_are_both_named_and_completed_once() -> None:
    first, second = Denying(ValueError("no")), Denying(ValueError("nor this"))
    async with running_picker(hooks=Hooks(pre_request=(first, second))) as picker:
        answer = await answer_to(picker)
        assert answer.status == 500
        assert answer.body == (
            b'inference error: Internal - PreRequest "denying/denying" failed: no; '
            b'PreRequest "denying/denying" failed: nor this'
        )
        assert picker.metric("epp_request_terminations_total", cause="error") == 1


@pytest.mark.parametrize(
    ("mode", "others", "routed"),
    [
        (FailureMode.FAIL_CLOSE, 1, False),
        (FailureMode.FAIL_OPEN, 1, True),
        (FailureMode.FAIL_OPEN, 2, False),
    ],
    ids=["FailClose", "FailOpen", "FailOpen over the hard limit"],
)
async def test_too_many_streams(mode: FailureMode, others: int, routed: bool) -> None:
    settings = RequestPathSettings(overload=OverloadLimits(streams=2))
    async with running_picker(failure_mode=mode, settings=settings) as picker:
        held = [picker.exchange() for _ in range(1 + others)]
        for exchange in held:
            await exchange.request_headers(end=True)
            await exchange.answer()
        exchange = picker.exchange()
        await exchange.request_headers()
        answer = await exchange.answer()
        if routed:
            assert answer.destination == ONE
            for piece in (b"not", b"json"):
                await exchange.request_body(piece)
                assert await exchange.answer() == Answer(
                    kind="request_body", body=piece, streamed=True
                )
            await exchange.request_body(LONG_PIECE)
            cut = [answer.body or b"" for answer in await exchange.answers(2)]
            assert ([len(each) for each in cut], b"".join(cut)) == ([62_000, 1_000], LONG_PIECE)
            await exchange.request_trailers()
            assert (await exchange.answer()).kind == "request_trailers"
            assert picker.metric("epp_fail_open_total", reason="overload") == 1
        else:
            assert (answer.status, answer.details) == (503, "epp_overloaded")
            assert answer.set_headers["retry-after"] == b"1"
        outcome = "picked" if routed else "rejected"
        assert picker.metric("epp_overload_total", signal="streams", outcome=outcome) == 1
        for stream in (*held, exchange):
            stream.cancel()
        await picker.settled()


@BOTH
async def test_too_many_buffered_bytes(mode: FailureMode) -> None:
    settings = RequestPathSettings(overload=OverloadLimits(buffered_bytes=1000))
    async with running_picker(failure_mode=mode, settings=settings) as picker:
        exchange = picker.exchange()
        await exchange.request_headers()
        await exchange.request_body(b"a" * 900)
        await exchange.request_body(b"b" * 200)
        answer = await exchange.answer()
        if mode is FailureMode.FAIL_CLOSE:
            assert (answer.status, answer.details) == (503, "epp_overloaded")
        else:
            assert answer.destination == ONE
            returned = await exchange.answer()
            assert (returned.body, returned.end) == (b"a" * 900 + b"b" * 200, False)
            assert picker.path.guard.buffered_bytes == 0
            await exchange.request_body(b"c" * 5000, end=True)
            returned = await exchange.answer()
            assert (returned.body, returned.end) == (b"c" * 5000, True)
        exchange.cancel()
        await picker.settled()


@BOTH
async def test_what_overload_answers_is_among_the_decisions(mode: FailureMode) -> None:
    settings = RequestPathSettings(overload=OverloadLimits(buffered_bytes=1000))
    async with running_picker(failure_mode=mode, settings=settings) as picker:
        exchange = picker.exchange()
        await exchange.request_headers({"x-request-id": "too-much"})
        await exchange.request_body(b"a" * 1100)
        await exchange.answer()
        assert picker.path.decisions is not None
        [decision] = picker.path.decisions.find("too-much")
        assert decision.path == "/v1/completions"
        if mode is FailureMode.FAIL_CLOSE:
            assert decision.refusal is not None
            assert (decision.refusal.status, decision.refusal.details) == (503, "epp_overloaded")
        else:
            assert decision.note == "fail open (overload)"
        exchange.cancel()
        await picker.settled()


@BOTH
async def test_an_event_loop_that_is_late_for_long(mode: FailureMode) -> None:
    async with running_picker(failure_mode=mode) as picker:
        for _ in range(2):
            picker.path.guard.record_lag(1.2)
        assert (await answer_to(picker)).destination == ONE
        picker.path.guard.record_lag(1.2)
        exchange = picker.exchange()
        await exchange.request_headers()
        answer = await exchange.answer()
        if mode is FailureMode.FAIL_CLOSE:
            assert answer.details == "epp_overloaded"
        else:
            assert answer.destination == ONE
        exchange.cancel()
        await picker.settled()


async def test_an_overloaded_buffered_gateway_is_picked_for_on_the_headers() -> None:
    settings = RequestPathSettings(overload=OverloadLimits(streams=2))
    async with running_picker(failure_mode=FailureMode.FAIL_OPEN, settings=settings) as picker:
        held = [picker.exchange() for _ in range(2)]
        for stream in held:
            await stream.request_headers(end=True)
            await stream.answer()
        exchange = picker.exchange(request_mode="BUFFERED")
        await exchange.request_headers()
        assert (await exchange.answer()).destination == ONE
        await exchange.request_body(b"not json", end=True)
        assert await exchange.answer() == Answer(kind="request_body")
        for stream in (*held, exchange):
            stream.cancel()
        await picker.settled()


async def test_a_pool_never_seen_is_503_in_fail_close_after_the_wait() -> None:
    settings = RequestPathSettings(director=DirectorSettings(decision_timeout=0.02))
    async with running_picker(synced=False, settings=settings) as picker:
        answer = await answer_to(picker)
        assert (answer.status, answer.details) == (503, "epp_not_synced")


async def test_a_pool_never_seen_leaves_the_choice_to_the_gateway_in_fail_open() -> None:
    settings = RequestPathSettings(
        director=DirectorSettings(decision_timeout=0.02, failure_mode=FailureMode.FAIL_OPEN)
    )
    async with running_picker(synced=False, settings=settings) as picker:
        answer = await answer_to(picker, headers={"x-gateway-destination-endpoint": "6.6.6.6:1"})
        assert answer.kind == "request_headers"
        assert answer.destination is None
        assert "x-gateway-destination-endpoint" in answer.remove_headers
        assert picker.metric("epp_fail_open_total", reason="not-synced") == 1


@BOTH
async def test_a_pool_that_was_deleted_is_503_without_a_wait(mode: FailureMode) -> None:
    settings = RequestPathSettings(director=DirectorSettings(decision_timeout=3600))
    async with running_picker(failure_mode=mode, settings=settings) as picker:
        picker.datastore.set_pool(None)
        picker.datastore.mark_unsynced()
        answer = await answer_to(picker)
        assert (answer.status, answer.details) == (503, "epp_rejected_no_endpoints")


@BOTH
async def test_a_pool_seen_within_the_wait_is_picked_from(mode: FailureMode) -> None:
    async with running_picker(synced=False) as picker:
        exchange = picker.exchange()
        await exchange.post(BODY)
        with picker.datastore.batch():
            picker.datastore.set_pool(pool(mode))
            picker.datastore.set_pods(pods([ONE]))
            picker.datastore.mark_synced()
        assert await exchange.picked() == ONE
        exchange.cancel()
        await picker.settled()


async def test_what_comes_through_a_tunnel_before_the_pool_is_seen_is_given_back() -> None:
    async with running_picker(synced=False) as picker:
        exchange = picker.exchange()
        await exchange.request_headers({**COMPLETIONS, ":method": "CONNECT"})
        await exchange.request_body(b"early ")
        await exchange.request_body(b"bird")
        await eventually(lambda: picker.path.guard.buffered_bytes == len(b"early bird"))
        with picker.datastore.batch():
            picker.datastore.set_pool(pool())
            picker.datastore.set_pods(pods([ONE]))
            picker.datastore.mark_synced()
        head, body = await exchange.answers(2)
        assert head.destination == ONE
        assert (body.body, body.end) == (b"early bird", False)
        exchange.cancel()
        await picker.settled()


@BOTH
async def test_a_body_over_the_cap_is_413(mode: FailureMode) -> None:
    from epp.gateway.context import GatewaySettings

    settings = RequestPathSettings(gateway=GatewaySettings(max_request_body_bytes=10))
    async with running_picker(failure_mode=mode, settings=settings) as picker:
        for modes in ({}, {"request_mode": "BUFFERED"}):
            exchange = picker.exchange(**modes)
            await exchange.post(BODY)
            answer = await exchange.answer()
            if answer.kind == "request_headers":
                answer = await exchange.answer()
            assert (answer.status, answer.details) == (413, "epp_payload_too_large")
        await picker.settled()


@BOTH
async def test_a_malformed_body_is_400(mode: FailureMode) -> None:
    async with running_picker(failure_mode=mode) as picker:
        assert (await answer_to(picker, b"{")).status == 400


async def test_a_flag_wins_over_the_pool() -> None:
    settings = RequestPathSettings(director=DirectorSettings(failure_mode=FailureMode.FAIL_OPEN))
    async with running_picker(
        settings=settings, scheduler=BrokenScheduler(RuntimeError())
    ) as picker:
        assert (await answer_to(picker)).destination == ONE


async def test_a_pool_without_a_mode_fails_close() -> None:
    async with running_picker(
        failure_mode=None, scheduler=BrokenScheduler(RuntimeError())
    ) as picker:
        assert (await answer_to(picker)).status == 503


async def test_the_mode_follows_the_pool() -> None:
    async with running_picker(scheduler=BrokenScheduler(RuntimeError())) as picker:
        assert (await answer_to(picker)).status == 503
        picker.datastore.set_pool(pool(FailureMode.FAIL_OPEN))
        assert (await answer_to(picker)).destination == ONE


async def test_a_body_that_stops_coming_is_408_after_the_idle_timeout() -> None:
    clock = Clock()
    async with running_picker(now=clock) as picker:
        exchange = picker.exchange()
        await exchange.request_headers(COMPLETIONS)
        await exchange.request_body(b'{"model":')
        await eventually(lambda: picker.path.guard.buffered_bytes > 0)
        picker.path.processor.upkeep.end_idle(clock.now + 59)
        picker.path.processor.upkeep.end_idle(clock.now + 61)
        answer = await exchange.answer()
        assert (answer.status, answer.details) == (408, "epp_request_timeout")
        await picker.settled()


@pytest.mark.parametrize("mode", ["BUFFERED", "BUFFERED_PARTIAL"])
async def test_a_body_that_the_gateway_keeps_may_take_as_long_as_it_lets_it(mode: str) -> None:
    clock = Clock()
    async with running_picker(now=clock) as picker:
        exchange = picker.exchange(request_mode=mode)
        await exchange.request_headers(COMPLETIONS)
        await exchange.answer()
        picker.path.processor.upkeep.end_idle(clock.now + 3600)
        await exchange.request_body(BODY, end=True)
        assert (await exchange.answer()).destination == ONE
        exchange.cancel()
        await picker.settled()
