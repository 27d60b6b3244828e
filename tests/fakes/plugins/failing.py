"""Plugins that raise, are late, hold everything up or meddle with what is not theirs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import ClassVar

from epp.framework.data import DataType, Scope
from epp.framework.endpoint import Endpoint
from epp.framework.errors import ErrorCode, Rejection
from epp.framework.plugin import Plugin, PluginContext
from epp.framework.request import InferenceRequest, InferenceResponse
from epp.framework.request_control import (
    DataProducer,
    PreRequest,
    RequestHeader,
    ResponseProgress,
    Screener,
)
from epp.framework.scheduling import Filter, Picker, ProfileHandler, Scorer
from epp.framework.scheduling_results import SchedulingResult
from tests.fakes.clock import Clock

ONE, TWO = "10.0.0.1:8000", "10.0.0.2:8000"
NOTED: DataType[str] = DataType(name="Noted", scope=Scope.REQUEST, default_producer="noting")


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


class SlowScorer(Scorer):
    """Rates by what must not matter, and takes its time."""

    type = "slow-scorer"

    def __init__(self, context: PluginContext) -> None:
        self._clock = context.now

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        assert isinstance(self._clock, Clock)
        self._clock.now += 0.2
        return [float(endpoint.address == ONE) for endpoint in endpoints]


OWN: tuple[type[Plugin], ...] = (
    BrokenProducer,
    RejectingProducer,
    LateProducer,
    NotingProducer,
    NoteScorer,
    ThreadedProducer,
    BrokenScorer,
    SlowProducer,
    SlowThread,
    SlowScorer,
    BrokenFilter,
    BrokenPicker,
    BrokenHandler,
    BrokenScreener,
    Meddling,
)
"""All of them."""
