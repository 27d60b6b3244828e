"""Plugins that hand over what they should not, and meddle with the tasks they run in."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from epp.framework.endpoint import Endpoint
from epp.framework.plugin import Plugin
from epp.framework.request import InferenceRequest, InferenceResponse
from epp.framework.request_control import DataProducer, PreRequest, ResponseBody, ResponseHeader
from epp.framework.scheduling import Filter, ProfileHandler, Scorer
from epp.framework.scheduling_results import SchedulingResult
from tests.fakes.plugins.failing import TWO


class DecimalScorer(Scorer):
    """Likes one endpoint, in numbers that don't mix with others."""

    type = "decimal-scorer"

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> Any:
        return (Decimal(each.address == TWO) for each in endpoints)


class EndlessScorer(Scorer):
    """Does not stop."""

    type = "endless-scorer"

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> Any:
        return itertools.repeat(1.0)


class CancellingScorer(Scorer):
    """Raises what ends tasks."""

    type = "cancelling-scorer"

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        raise asyncio.CancelledError


class ExitingScorer(Scorer):
    """Raises what ends processes."""

    type = "exiting-scorer"

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        sys.exit(3)


class LazyFilter(Filter):
    """Decides when it is asked."""

    type = "lazy-filter"

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> Any:
        return (each for each in endpoints if each.address == TWO)


class EndlessFilter(Filter):
    """Does not stop."""

    type = "endless-filter"

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> Any:
        return itertools.cycle(endpoints)


class CancellingFilter(Filter):
    """Raises what ends tasks."""

    type = "cancelling-filter"

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        raise asyncio.CancelledError


class LazyHandler(ProfileHandler):
    """Names the profiles that have not run, one by one."""

    type = "lazy-handler"

    def pick(self, request: object, profiles: Sequence[str], results: Any) -> Any:
        return (name for name in profiles if name not in results)

    def process(self, request: object, results: Any) -> SchedulingResult:
        return SchedulingResult(primary="default", profiles=results)


class ExitingProducer(DataProducer):
    """Raises what ends processes."""

    type = "exiting-producer"

    async def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        sys.exit(3)


class CancellingProducer(DataProducer):
    """Waits for what it has cancelled."""

    type = "cancelling-producer"

    async def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        waiting = asyncio.ensure_future(asyncio.Event().wait())
        waiting.cancel()
        await waiting


class SelfCancellingProducer(DataProducer):
    """Cancels the task it finds itself in."""

    type = "self-cancelling-producer"

    async def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)


class SecretlyWaitingProducer(DataProducer):
    """Does not look as if it waits."""

    type = "secretly-waiting-producer"

    def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> Any:
        return asyncio.get_running_loop().create_future()


class StubbornProducer(DataProducer):
    """Goes on although it is cancelled, until it is released."""

    type = "stubborn-producer"
    timeout_seconds = 0.01

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.calls = 0

    async def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        self.calls += 1
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                continue


class CancellingResponseHeader(ResponseHeader):
    """Raises what ends tasks."""

    type = "cancelling-response-header"

    def response_header(self, request: object, response: object, endpoint: object) -> None:
        raise asyncio.CancelledError


class SmugglingPreRequest(PreRequest):
    """Changes headers behind their back."""

    type = "smuggling-pre-request"

    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        request.headers.changes["x-smuggled"] = 5  # type: ignore[assignment]  # that is the point


class PatientProducer(DataProducer):
    """Lets others have their turn, as most do."""

    type = "patient-producer"

    async def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        await asyncio.sleep(0)


class WaitingResponseBody(ResponseBody):
    """Waits for ever at the end of each response."""

    type = "waiting-response-body"
    timeout_seconds = 0.01

    async def response_body(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        await asyncio.Event().wait()


def every_rude_plugin() -> Iterator[type[Plugin]]:
    """All of them."""
    for value in globals().values():
        if isinstance(value, type) and issubclass(value, Plugin) and value.__module__ == __name__:
            yield value
