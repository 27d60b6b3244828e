from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytest
from structlog.testing import capture_logs

from epp.framework.endpoint import Endpoint
from epp.framework.errors import DropReason, ErrorCode, PlainRejection, Rejection
from epp.framework.request import InferenceRequest
from epp.framework.request_control import DataProducer
from epp.framework.scheduling_results import ProfileResult, SchedulingResult
from epp.request_control.hooks import Hooks
from epp.testing import request_of
from tests.fakes.plugins.hooks import BUG, POOL, A, Anything, B, C, Runner, failing, raising

MORE_THAN_THREADS = 40  # of any pool of the standard library

RESULT = SchedulingResult(primary="p", profiles={"p": ProfileResult(endpoints=(A,))})


def test_a_request_header_hook_that_fails_ends_the_request() -> None:
    first, second, third = Anything(), Anything(BUG, "b"), Anything()
    runner = Runner(request_header=(first, second, third))

    with pytest.raises(Rejection, match='RequestHeader "b/anything" failed: bug') as rejected:
        runner.run.request_header(request_of())

    assert rejected.value.http_status == 500
    assert [first.calls, third.calls] == [1, 0]
    assert runner.errors == {"RequestHeader": 1}


def test_a_request_header_hook_that_rejects_is_no_fault() -> None:
    runner = Runner(request_header=(Anything(failing(ErrorCode.UNAUTHORIZED)),))

    with pytest.raises(Rejection) as rejected:
        runner.run.request_header(request_of())

    assert (rejected.value.http_status, rejected.value.message) == (401, "no")
    assert runner.errors == {}


def test_screeners_see_everything_and_agree_on_the_rest() -> None:
    runner = Runner(screener=(Anything(lambda: [C, B]), Anything(lambda: [A, C, B])))

    assert runner.run.screen(request_of(), POOL) == [B, C]


def test_screeners_that_agree_on_nobody_are_503() -> None:
    runner = Runner(screener=(Anything(lambda: [A]), Anything(lambda: [B])))

    with pytest.raises(Rejection) as rejected:
        runner.run.screen(request_of(), POOL)

    assert rejected.value.http_status == 503
    assert rejected.value.drop_reason is DropReason.NO_ENDPOINTS


def test_a_screener_that_fails_is_a_fault_that_is_counted() -> None:
    runner = Runner(screener=(Anything(BUG),))

    with pytest.raises(ValueError, match="bug"):
        runner.run.screen(request_of(), POOL)

    assert runner.errors == {"Screener": 1}


def test_a_screener_that_rejects_keeps_its_status() -> None:
    runner = Runner(screener=(Anything(failing(ErrorCode.FORBIDDEN)),))

    with pytest.raises(Rejection) as rejected:
        runner.run.screen(request_of(), POOL)

    assert rejected.value.http_status == 403
    assert runner.errors == {}


@pytest.mark.parametrize(
    "act", [BUG, failing(ErrorCode.FORBIDDEN), raising(TimeoutError())], ids=["bug", "no", "late"]
)
async def test_a_producer_that_fails_keeps_no_other_from_its_work(act: Callable[[], Any]) -> None:
    first, last = Anything(), Anything()
    runner = Runner(data_producer=(first, Anything(act), last))

    await runner.run.produce(request_of(), POOL)

    assert (first.calls, last.calls) == (1, 1)
    assert runner.errors == {"DataProducer": 1}


async def test_the_author_of_a_producer_that_fails_is_told_where() -> None:
    runner = Runner(data_producer=(Anything(BUG, "mine"),))

    with capture_logs() as lines:
        for _ in range(3):
            await runner.run.produce(request_of(), POOL)

    (warning,) = [line for line in lines if line["log_level"] == "warning"]
    assert (warning["event"], warning["plugin"]) == ("plugin failed", "mine")
    assert (warning["extension_point"], warning["error"]) == ("DataProducer", "ValueError")
    assert "in produce\n" in warning["exception"]


class Endless(DataProducer):
    """Waits for ever, and has little time."""

    type = "endless"
    timeout_seconds = 0.001

    def __init__(self) -> None:
        self.was_cancelled = False

    async def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.was_cancelled = True


async def test_a_producer_that_is_late_is_cancelled() -> None:
    endless, last = Endless(), Anything()
    runner = Runner(data_producer=(endless, last))

    await runner.run.produce(request_of(), POOL)

    assert endless.was_cancelled
    assert last.calls == 1
    assert runner.errors == {"DataProducer": 1}


async def test_a_request_that_is_given_up_ends_its_producer_and_starts_no_other() -> None:
    endless, last = Endless(), Anything()
    endless.timeout_seconds = 60
    runner = Runner(data_producer=(endless, last))
    task = asyncio.ensure_future(runner.run.produce(request_of(), POOL))
    await asyncio.sleep(0)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert endless.was_cancelled
    assert last.calls == 0
    assert runner.errors == {}


class Threaded(Anything):
    """Runs in a thread."""

    runs_in_thread: ClassVar[bool] = True
    timeout_seconds = 0.001


async def test_producers_that_block_all_their_threads_keep_nothing_else_from_a_thread() -> None:
    go_on = threading.Event()
    runner = Runner(data_producer=(Threaded(go_on.wait),))
    try:
        requests = [runner.run.produce(request_of(), POOL) for _ in range(MORE_THAN_THREADS)]
        await asyncio.gather(*requests)

        async with asyncio.timeout(10):
            await asyncio.to_thread(threading.current_thread)
    finally:
        go_on.set()


@pytest.mark.parametrize(
    ("producer", "waits"),
    [(Anything(), False), (Threaded(), True), (Endless(), True)],
    ids=["synchronous", "in a thread", "asynchronous"],
)
def test_a_plan_waits_only_for_producers_that_do(producer: DataProducer, waits: bool) -> None:
    hooks = Hooks(data_producer=(Anything(), producer))

    assert hooks.waiting_producers == ([producer] if waits else [])


@pytest.mark.parametrize(
    ("act", "status", "message", "reason", "retry_after"),
    [
        (failing(ErrorCode.RESOURCE_EXHAUSTED), 429, "no", DropReason.SATURATED, 1),
        (failing(ErrorCode.RESOURCE_EXHAUSTED, retry_after=7), 429, "no", DropReason.SATURATED, 7),
        (failing(ErrorCode.FORBIDDEN), 403, "no", None, None),
        (BUG, 500, "bug", None, None),
    ],
    ids=["busy", "busy for a while", "forbidden", "untyped"],
)
def test_the_first_denial_is_told_with_its_status(
    act: Callable[[], Any],
    status: int,
    message: str,
    reason: DropReason | None,
    retry_after: int | None,
) -> None:
    second = Anything()
    runner = Runner(admitter=(Anything(act), second))

    with pytest.raises(Rejection) as denied:
        runner.run.admit(request_of(), POOL)

    assert denied.value.http_status == status
    assert denied.value.message == f"request cannot be admitted: {message}"
    assert (denied.value.drop_reason, denied.value.retry_after) == (reason, retry_after)
    assert second.calls == 0
    assert runner.errors == ({"Admission": 1} if act is BUG else {})


@pytest.mark.parametrize(
    ("acts", "status", "message"),
    [
        ([failing(ErrorCode.PRECONDITION_FAILED)], 412, "no"),
        ([BUG], 500, 'PreRequest "p0/anything" failed: bug'),
        (
            [failing(ErrorCode.PRECONDITION_FAILED), BUG],
            500,
            'PreRequest "p0/anything" failed: no; PreRequest "p1/anything" failed: bug',
        ),
        (
            [failing(ErrorCode.FORBIDDEN), failing(ErrorCode.FORBIDDEN)],
            500,
            'PreRequest "p0/anything" failed: no; PreRequest "p1/anything" failed: no',
        ),
    ],
    ids=["one rejection", "one fault", "both", "two rejections"],
)
def test_every_pre_request_hook_runs_before_the_failures_are_told(
    acts: list[Callable[[], Any]], status: int, message: str
) -> None:
    hooks = [Anything(act, f"p{index}") for index, act in enumerate([*acts, lambda: None])]
    runner = Runner(pre_request=tuple(hooks))

    with pytest.raises(Rejection) as rejected:
        runner.run.pre_request(request_of(), RESULT)

    assert (rejected.value.http_status, rejected.value.message) == (status, message)
    assert [hook.calls for hook in hooks] == [1] * len(hooks)
    faults = acts.count(BUG)
    assert runner.errors == ({"PreRequest": faults} if faults else {})


@pytest.mark.parametrize("act", [BUG, failing(ErrorCode.FORBIDDEN)], ids=["a fault", "a rejection"])
@pytest.mark.parametrize("point", ["request_header", "admit", "pre_request"])
def test_what_a_plugin_says_is_for_the_client_and_not_for_logs(
    act: Callable[[], Any], point: str
) -> None:
    hook = Anything(act)
    runner = Runner(request_header=(hook,), admitter=(hook,), pre_request=(hook,))
    call = getattr(runner.run, point)
    told = {"request_header": (), "admit": (POOL,), "pre_request": (RESULT,)}[point]

    with pytest.raises(Rejection) as rejected:
        call(request_of(), *told)

    said = "bug" if act is BUG else "no"
    assert rejected.value.message.endswith(said)
    assert not rejected.value.log_message.endswith(said)
    assert rejected.value.log_message


def test_a_denial_that_quotes_nothing_is_told_in_logs() -> None:
    def deny() -> None:
        raise PlainRejection(ErrorCode.FORBIDDEN, "not today")

    with pytest.raises(Rejection) as denied:
        Runner(admitter=(Anything(deny),)).run.admit(request_of(), POOL)

    assert denied.value.log_message == "request cannot be admitted: not today"
