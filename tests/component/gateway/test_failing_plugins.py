"""Plugins of a configuration that raise, are late or hold everything up (decisions 1 and 18)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import ClassVar

import pytest

from epp.app.assembly import RequestPathSettings
from epp.datastore.inference_pool import FailureMode
from epp.framework.data import DataType, Scope
from epp.framework.endpoint import Endpoint
from epp.framework.errors import ErrorCode, Rejection
from epp.framework.plugin import PluginContext
from epp.framework.request import InferenceRequest, InferenceResponse
from epp.framework.request_control import (
    DataProducer,
    PreRequest,
    RequestHeader,
    ResponseProgress,
    Screener,
)
from epp.framework.scheduling import Filter, Picker, ProfileHandler, SchedulingResult, Scorer
from epp.request_control.director import DirectorSettings
from tests.fakes.gateway_client import Answer
from tests.fakes.picker import Picker as RunningPicker
from tests.fakes.picker import running_picker

BODY = b'{"model":"m","prompt":"a"}'
ONE, TWO = "10.0.0.1:8000", "10.0.0.2:8000"
BOTH = pytest.mark.parametrize("mode", list(FailureMode))
NOTED: DataType[str] = DataType(name="Noted", scope=Scope.REQUEST, default_producer="noting")


class Clock:
    """Time that plugins spend as they are told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class BrokenProducer(DataProducer):
    """Has a bug."""

    type = "broken-producer"

    def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        raise RuntimeError("bug")


class RejectingProducer(DataProducer):
    """Wants to decide what is not for it to decide."""

    type = "rejecting-producer"

    def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        raise Rejection(ErrorCode.FORBIDDEN, "not you")


class LateProducer(DataProducer):
    """Never comes to an end by itself."""

    type = "late-producer"
    timeout_seconds = 0.01

    def __init__(self) -> None:
        self.cancellations = 0

    async def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancellations += 1
            raise


class NotingProducer(DataProducer):
    """Leaves a note that a scorer looks for."""

    type = "noting"

    def __init__(self, context: PluginContext) -> None:
        self._noted = context.produces(NOTED)

    def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        self._noted.put(request, TWO)


class NoteScorer(Scorer):
    """Likes the endpoint of the note."""

    type = "note-scorer"

    def __init__(self, context: PluginContext) -> None:
        self._noted = context.consumes(NOTED)

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        note = self._noted.of_request(request)
        return [float(endpoint.address == note) for endpoint in endpoints]


class ThreadedProducer(NotingProducer):
    """Leaves its note from a thread."""

    type = "threaded"
    runs_in_thread: ClassVar[bool] = True

    def __init__(self, context: PluginContext) -> None:
        super().__init__(context)
        self.threads: list[threading.Thread] = []

    def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        self.threads.append(threading.current_thread())
        super().produce(request, endpoints)


class BrokenScorer(Scorer):
    """Has a bug."""

    type = "broken-scorer"

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        raise RuntimeError("bug")


class Slow(DataProducer, Scorer):
    """Holds everything up, as a producer or as a scorer."""

    type = "slow"

    def __init__(self, context: PluginContext) -> None:
        self._clock = context.now
        self.calls = 0

    def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        self._spend(0.5)

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        self._spend(0.2)
        return [1.0] * len(endpoints)

    def _spend(self, seconds: float) -> None:
        assert isinstance(self._clock, Clock)
        self._clock.now += seconds
        self.calls += 1


class SlowProducer(Slow):
    """The producer alone."""

    type = "slow-producer"


class SlowThread(SlowProducer):
    """The same in a thread."""

    type = "slow-thread"
    runs_in_thread: ClassVar[bool] = True


class BrokenFilter(Filter):
    """Has a bug."""

    type = "broken-filter"

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        raise RuntimeError("bug")


class BrokenPicker(Picker):
    """Has a bug."""

    type = "broken-picker"

    def pick(
        self, request: InferenceRequest, endpoints: Sequence[Endpoint], totals: Sequence[float]
    ) -> list[Endpoint]:
        raise RuntimeError("bug")


class BrokenHandler(ProfileHandler):
    """Has a bug."""

    type = "broken-handler"

    def pick(self, request: object, profiles: object, results: object) -> Sequence[str]:
        raise RuntimeError("bug")

    def process(self, request: object, results: object) -> SchedulingResult:
        raise AssertionError


class BrokenScreener(Screener):
    """Has a bug."""

    type = "broken-screener"

    def screen(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        raise RuntimeError("bug")


class Meddling(RequestHeader, DataProducer, PreRequest, ResponseProgress):
    """Leaves traces everywhere, and takes too long to do so."""

    type = "meddling"

    def __init__(self, context: PluginContext) -> None:
        self._clock = context.now
        self.ended_requests: list[InferenceRequest] = []
        self.traces: list[object] = []

    def request_header(self, request: InferenceRequest) -> None:
        request.headers.remove("x-secret")

    def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        request.attributes["trace"] = 1

    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        request.headers.set("x-prefiller-host-port", ONE)
        request.headers.set("x-mine", "1")
        request.dynamic_metadata["mine"] = {"a": 1}
        assert isinstance(self._clock, Clock)
        self._clock.now += 60

    def ended(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        self.ended_requests.append(request)
        self.traces.append(request.attributes.get("trace"))


OWN = (
    BrokenProducer,
    RejectingProducer,
    LateProducer,
    NotingProducer,
    NoteScorer,
    ThreadedProducer,
    BrokenScorer,
    SlowProducer,
    SlowThread,
    BrokenFilter,
    BrokenPicker,
    BrokenHandler,
    BrokenScreener,
    Meddling,
)


async def answer_to(picker: RunningPicker, headers: dict[str, str] | None = None) -> Answer:
    exchange = picker.exchange()
    await exchange.post(BODY, headers)
    answer = await exchange.answer()
    if answer.kind == "request_headers":
        assert (await exchange.answer()).body == BODY
    exchange.cancel()
    await picker.settled()
    return answer


@BOTH
@pytest.mark.parametrize(
    "broken",
    [
        "broken-producer",
        "rejecting-producer",
        pytest.param("late-producer", id="V40"),
        "broken-scorer",
    ],
)
async def test_what_only_informs_costs_its_word_alone(mode: FailureMode, broken: str) -> None:
    config = f"plugins: [{{type: {broken}}}, {{type: noting}}, {{type: note-scorer}}]"
    async with running_picker(
        (ONE, TWO), config=config, own_plugins=OWN, failure_mode=mode
    ) as picker:
        assert (await answer_to(picker)).destination == TWO
        assert picker.metric("epp_plugin_errors_total", plugin_type=broken) == 1
        assert picker.faults == 1
        assert picker.metric("epp_fail_open_total") == 0
        if broken == "late-producer":
            assert picker.plugin(broken, LateProducer).cancellations == 1


@BOTH
@pytest.mark.parametrize(
    ("broken", "point"),
    [
        ("broken-filter", "Filter"),
        ("broken-picker", "Picker"),
        ("broken-handler", "ProfilePicker"),
        ("broken-screener", "Screener"),
    ],
)
async def test_what_decides_is_answered_by_the_failure_mode(
    mode: FailureMode, broken: str, point: str
) -> None:
    config = f"plugins: [{{type: queue-scorer}}, {{type: {broken}}}]"
    async with running_picker(
        (ONE, TWO), config=config, own_plugins=OWN, failure_mode=mode
    ) as picker:
        picker.endpoint(ONE).load.acquire()
        exchange = picker.exchange()
        await exchange.post(BODY)
        answer = await exchange.answer()
        if mode is FailureMode.FAIL_CLOSE:
            assert (answer.status, answer.details) == (503, "epp_internal")
        else:
            assert answer.destination == TWO
            assert (await exchange.answer()).body == BODY
        opened = picker.metric("epp_fail_open_total", reason="internal")
        assert opened == (mode is FailureMode.FAIL_OPEN)
        errors = {"extension_point": point, "plugin_type": broken}
        assert picker.metric("epp_plugin_errors_total", **errors) == 1
        exchange.cancel()
        picker.endpoint(ONE).load.release()
        await picker.settled()


async def test_a_producer_may_run_in_a_thread() -> None:
    noting = "{type: threaded, name: noting}"
    config = f"plugins: [{noting}, {{type: note-scorer}}]"
    async with running_picker((ONE, TWO), config=config, own_plugins=OWN) as picker:
        assert (await answer_to(picker)).destination == TWO
        threads = picker.plugin("noting", ThreadedProducer).threads
        assert threading.main_thread() not in threads
        assert len(threads) == 1


@pytest.mark.parametrize("slow", ["slow-producer", "slow-thread"])
async def test_a_producer_that_holds_everything_up_is_switched_off(slow: str) -> None:
    clock = Clock()
    config = f"""
plugins: [{{type: {slow}}}, {{type: queue-scorer}}, {{type: max-score-picker}}]
schedulingProfiles: [{{name: default, plugins: [{{pluginRef: queue-scorer}}]}}]
"""
    async with running_picker(config=config, own_plugins=OWN, now=clock) as picker:
        for _ in range(8):
            assert (await answer_to(picker)).destination == ONE
        assert picker.plugin(slow, Slow).calls == 5
        assert picker.metric("epp_plugins_switched_off_total", plugin_type=slow) == 1


class SlowScorer(Scorer):
    """Rates by what must not matter, and takes its time."""

    type = "slow-scorer"

    def __init__(self, context: PluginContext) -> None:
        self._clock = context.now

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        assert isinstance(self._clock, Clock)
        self._clock.now += 0.2
        return [float(endpoint.address == ONE) for endpoint in endpoints]


async def test_a_scorer_that_holds_everything_up_is_switched_off() -> None:
    config = "plugins: [{type: slow-scorer}, {type: noting}, {type: note-scorer}]"
    profile = """
schedulingProfiles:
- name: default
  plugins: [{pluginRef: slow-scorer, weight: 9}, {pluginRef: note-scorer}]
"""
    async with running_picker(
        (ONE, TWO), config=config + profile, own_plugins=(*OWN, SlowScorer), now=Clock()
    ) as picker:
        picks = [(await answer_to(picker)).destination for _ in range(7)]
        assert picks == [ONE] * 5 + [TWO] * 2
        off = picker.metric("epp_plugins_switched_off_total", plugin_type="slow-scorer")
        assert off == 1


async def test_a_best_effort_pick_carries_nothing_of_the_decision_that_failed() -> None:
    config = "plugins: [{type: queue-scorer}, {type: meddling}]"
    settings = RequestPathSettings(director=DirectorSettings(emit_endpoint_scores=True))
    async with running_picker(
        config=config,
        own_plugins=OWN,
        failure_mode=FailureMode.FAIL_OPEN,
        settings=settings,
        now=Clock(),
    ) as picker:
        sent = {"x-prefiller-host-port": "6.6.6.6:1", "x-secret": "s", "x-request-id": ""}
        answer = await answer_to(picker, sent)
        assert picker.metric("epp_fail_open_total", reason="deadline") == 1
        assert answer.set_headers.keys() == {"x-gateway-destination-endpoint", "x-request-id"}
        assert answer.remove_headers == {"x-prefiller-host-port", "x-secret"}
        assert answer.metadata == {"envoy.lb": {"x-gateway-destination-endpoint": ONE}}
        meddling = picker.plugin("meddling", Meddling)
        assert meddling.traces == [1, None]
        assert len(set(map(id, meddling.ended_requests))) == 2
        assert {request.id for request in meddling.ended_requests} == {
            answer.set_headers["x-request-id"].decode()
        }
