"""Hooks that do what a test says, and a runner that tells what it counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from epp.framework.endpoint import Endpoint
from epp.framework.errors import ErrorCode, Rejection
from epp.framework.request import InferenceRequest, InferenceResponse
from epp.framework.request_control import (
    Admitter,
    DataProducer,
    PreRequest,
    RequestHeader,
    ResponseBody,
    ResponseHeader,
    ResponseMetadata,
    ResponseProgress,
    Screener,
)
from epp.framework.scheduling_results import SchedulingResult
from epp.observability.metrics import Metrics
from epp.request_control.hooks import Hooks
from epp.request_control.request_hooks import HookRunner
from epp.testing import endpoint_of

A, B, C = POOL = tuple(endpoint_of(f"e{number}") for number in (1, 2, 3))


class Anything(
    RequestHeader,
    Screener,
    Admitter,
    PreRequest,
    ResponseHeader,
    ResponseBody,
    ResponseProgress,
    ResponseMetadata,
    DataProducer,
):
    """Does the same wherever it is called, and remembers that it was."""

    type = "anything"

    def __init__(self, act: Callable[[], Any] = lambda: None, name: str = "a") -> None:
        self._act = act
        self.calls = 0
        self.identify(type="anything", name=name)

    def _called(self) -> Any:
        self.calls += 1
        return self._act()

    def request_header(self, request: InferenceRequest) -> None:
        self._called()

    def screen(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        assert list(endpoints) == list(POOL), "a screener sees all candidates"
        kept: list[Endpoint] = self._called()
        return kept

    def produce(
        self, request: InferenceRequest, endpoints: Sequence[Endpoint]
    ) -> Awaitable[None] | None:
        waits: Awaitable[None] | None = self._called()
        return waits

    def admit(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        self._called()

    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        self._called()

    def response_header(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint | None
    ) -> None:
        response.headers.set(f"x-{self.name}", "1")
        self._called()

    def response_body(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> Awaitable[None] | None:
        waits: Awaitable[None] | None = self._called()
        return waits

    def first_chunk(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        self._called()

    def ended(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        self._called()

    def response_metadata(
        self, request: InferenceRequest, response: InferenceResponse
    ) -> Mapping[str, Mapping[str, Any]]:
        told: Mapping[str, Mapping[str, Any]] = self._called()
        return told


def raising(error: Exception) -> Callable[[], Any]:
    def act() -> Any:
        raise error.with_traceback(None)  # of earlier tests

    return act


BUG = raising(ValueError("bug"))


def failing(code: ErrorCode, **details: Any) -> Callable[[], Any]:
    return raising(Rejection(code, "no", **details))


class KeepsFirst(Screener):
    """Lets the first endpoint through."""

    type = "keeps-first"

    def screen(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        return list(endpoints[:1])


class Runner:
    """A runner of hooks and what it counts."""

    def __init__(self, **hooks: tuple[Any, ...]) -> None:
        self.metrics = Metrics()
        self.run = HookRunner(Hooks(**hooks), self.metrics)

    @property
    def errors(self) -> dict[str, int]:
        """Failed calls by extension point."""
        return self._by_extension_point("epp_plugin_errors_total")

    @property
    def timed(self) -> dict[str, int]:
        """Measured calls by extension point."""
        return self._by_extension_point("llm_d_epp_plugin_duration_seconds_count")

    def _by_extension_point(self, name: str) -> dict[str, int]:
        page = b"".join(self.metrics.exposition()[0]).decode().splitlines()
        sums: Counter[str] = Counter()
        for line in page:
            if line.startswith(f"{name}{{"):
                point = line.partition('extension_point="')[2].partition('"')[0]
                sums[point] += int(float(line.rpartition(" ")[2]))
        return dict(sums)
