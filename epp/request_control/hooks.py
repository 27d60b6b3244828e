"""The plugins around scheduling, and what a failure of each costs (decision 1, protocol §8)."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from epp.framework.errors import DropReason, ErrorCode, Rejection
from epp.scheduling.overruns import Overruns
from epp.support.fault_log import FaultLog
from epp.support.plugin_faults import (
    PLUGIN_FAULTS,
    PluginFault,
    StillRunning,
    finish_within,
    is_cancellation,
)

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.plugin import Plugin
    from epp.framework.request import InferenceRequest, InferenceResponse, MetadataValue
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
    from epp.framework.scheduling import SchedulingResult
    from epp.observability.metrics import Metrics

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """What is configured at each extension point, in calling order."""

    request_header: tuple[RequestHeader, ...] = ()
    screener: tuple[Screener, ...] = ()
    data_producer: tuple[DataProducer, ...] = ()
    admitter: tuple[Admitter, ...] = ()
    pre_request: tuple[PreRequest, ...] = ()
    response_header: tuple[ResponseHeader, ...] = ()
    response_body: tuple[ResponseBody, ...] = ()
    response_progress: tuple[ResponseProgress, ...] = ()
    response_metadata: tuple[ResponseMetadata, ...] = ()

    @property
    def waiting_producers(self) -> list[DataProducer]:
        """Those for which a decision takes more than one turn of the event loop."""
        return [
            hook
            for hook in self.data_producer
            if hook.runs_in_thread or inspect.iscoroutinefunction(hook.produce)
        ]


class _Measured:
    # Several times per request: as a generator it would take 2.3 us, this takes 0.9.
    __slots__ = ("_hook", "_metrics", "_now", "_point", "_started")

    def __init__(
        self, metrics: Metrics, now: Callable[[], float], point: str, hook: Plugin
    ) -> None:
        self._metrics = metrics
        self._now = now
        self._point = point
        self._hook = hook
        self._started = 0.0

    def __enter__(self) -> None:
        self._started = self._now()

    def __exit__(self, *_: object) -> None:
        seconds = self._now() - self._started
        self._metrics.plugin_duration(self._point, self._hook.type, self._hook.name, seconds)


class HookRunner:
    """Runs hooks, measures them and contains what they raise."""

    def __init__(
        self, hooks: Hooks, metrics: Metrics, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.hooks = hooks
        self._metrics = metrics
        self._now = now
        self._faults = FaultLog("plugin failed", log.warning, now)
        self._overruns = Overruns(metrics.plugin_switched_off)
        self.may_wait = bool(hooks.waiting_producers)
        """Whether a decision can take more than one turn of the event loop."""

    def request_header(self, request: InferenceRequest) -> None:
        """The first failure ends the request: a rejection as it is, anything else as 500."""
        for hook in self.hooks.request_header:
            try:
                with self._measured("RequestHeader", hook):
                    hook.request_header(request)
            except Rejection:
                raise
            except PLUGIN_FAULTS as error:
                self._failed("RequestHeader", hook, error)
                message = f'RequestHeader "{hook.name}/{hook.type}" failed: {error}'
                raise Rejection(ErrorCode.INTERNAL, message) from error

    def screen(
        self, request: InferenceRequest, endpoints: Sequence[Endpoint]
    ) -> Sequence[Endpoint]:
        """What every screener lets through; nothing left is a 503, what one raises is a fault."""
        kept = endpoints
        for hook in self.hooks.screener:
            try:
                with self._measured("Screener", hook):
                    allowed = set(hook.screen(request, endpoints))
            except Rejection:
                raise
            except PLUGIN_FAULTS as error:
                self._failed("Screener", hook, error)
                raise
            kept = [endpoint for endpoint in kept if endpoint in allowed]
        if not kept:
            raise Rejection(
                ErrorCode.SERVICE_UNAVAILABLE,
                "screeners eliminated all endpoint candidates",
                drop_reason=DropReason.NO_ENDPOINTS,
                retry_after=1,
            )
        return kept

    async def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        """Run the producers one after another; one that fails or is late costs its own data."""
        for hook in self.hooks.data_producer:
            if self._overruns.is_off(hook):
                continue
            try:
                with self._measured("DataProducer", hook):
                    await self._produce(hook, request, endpoints)
            except PLUGIN_FAULTS as error:  # its data is missing, the request goes on
                if is_cancellation(error):
                    raise
                self._failed("DataProducer", hook, error)

    async def _produce(
        self, hook: DataProducer, request: InferenceRequest, endpoints: Sequence[Endpoint]
    ) -> None:
        if hook.runs_in_thread:
            await self._produce_in_thread(hook, request, endpoints)
            return
        started = self._now()
        pending = hook.produce(request, endpoints)
        if pending is None:
            self._overruns.took(hook, self._now() - started, hook.timeout_seconds)
            return
        if not self.may_wait:
            raise PluginFault(f"{hook.name!r} waits, but its produce is no `async def`")
        await self._finish(hook, pending, hook.timeout_seconds)

    async def _finish(self, hook: Plugin, pending: Awaitable[None], budget_seconds: float) -> None:
        try:
            await finish_within(pending, budget_seconds)
        except StillRunning as error:
            # Each call would leave one more task behind.
            if not self._overruns.is_off(hook):
                self._overruns.took(hook, error.seconds, budget_seconds)
            raise
        self._overruns.took(hook, 0.0, budget_seconds)

    async def _produce_in_thread(
        self, hook: DataProducer, request: InferenceRequest, endpoints: Sequence[Endpoint]
    ) -> None:
        started = self._now()
        try:
            async with asyncio.timeout(hook.timeout_seconds):
                await asyncio.to_thread(hook.produce, request, endpoints)
        finally:
            # A thread can't be interrupted either, and there are few for the whole process.
            if not self._overruns.is_off(hook):
                self._overruns.took(hook, self._now() - started, hook.timeout_seconds)

    def admit(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        """The first denial ends the request, with the status it asks for."""
        for hook in self.hooks.admitter:
            try:
                with self._measured("Admission", hook):
                    hook.admit(request, endpoints)
            except Rejection as denial:
                saturated = denial.code is ErrorCode.RESOURCE_EXHAUSTED
                raise Rejection(
                    denial.code,
                    f"request cannot be admitted: {denial.message}",
                    drop_reason=denial.drop_reason or (DropReason.SATURATED if saturated else None),
                    retry_after=denial.retry_after or (1 if saturated else None),
                ) from denial
            except PLUGIN_FAULTS as error:
                self._failed("Admission", hook, error)
                raise Rejection(
                    ErrorCode.INTERNAL, f"request cannot be admitted: {error}"
                ) from error

    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        """All of them run; then a rejection goes out as it is, anything else is a 500."""
        failures: list[tuple[PreRequest, BaseException]] = []
        for hook in self.hooks.pre_request:
            try:
                with self._measured("PreRequest", hook):
                    hook.pre_request(request, result)
            except Rejection as rejection:
                failures.append((hook, rejection))
            except PLUGIN_FAULTS as error:  # reported together below
                self._failed("PreRequest", hook, error)
                failures.append((hook, error))
        if not failures:
            return
        first = failures[0][1]
        if len(failures) == 1 and isinstance(first, Rejection):
            raise first
        text = "; ".join(
            f'PreRequest "{hook.name}/{hook.type}" failed: {error}' for hook, error in failures
        )
        raise Rejection(ErrorCode.INTERNAL, text) from first

    def response_header(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint | None
    ) -> None:
        """A failure is counted and costs that hook's changes."""
        for hook in self.hooks.response_header:
            before = response.headers
            response.headers = before.copy()
            try:
                with self._measured("ResponseReceived", hook):
                    hook.response_header(request, response, endpoint)
            except PLUGIN_FAULTS as error:  # the response goes through (decision 1)
                self._failed("ResponseReceived", hook, error)
                response.headers = before
                self._metrics.response_phase_error()

    async def response_body(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        """Show every hook the state of a response; failures are counted."""
        for hook in self.hooks.response_body:
            if self._overruns.is_off(hook):
                continue
            try:
                with self._measured("ResponseStreaming", hook):
                    pending = hook.response_body(request, response, endpoint)
                    if pending is not None:
                        await self._finish(hook, pending, hook.timeout_seconds)
            except PLUGIN_FAULTS as error:  # the response goes through (decision 1)
                if is_cancellation(error):
                    raise
                self._failed("ResponseStreaming", hook, error)
                self._metrics.response_phase_error()

    def first_chunk(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        """The first bytes of a response's body have come."""
        for hook in self.hooks.response_progress:
            try:
                hook.first_chunk(request, response, endpoint)
            except PLUGIN_FAULTS as error:  # the response goes through (decision 1)
                self._response_failed(hook, error)

    def ended(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        """A request that got an endpoint is over; every hook is told, whatever the others do."""
        for hook in self.hooks.response_progress:
            try:
                hook.ended(request, response, endpoint)
            except PLUGIN_FAULTS as error:  # the response goes through (decision 1)
                self._response_failed(hook, error)

    def response_metadata(
        self, request: InferenceRequest, response: InferenceResponse
    ) -> dict[str, dict[str, MetadataValue]]:
        """What the hooks tell the gateway about a response, by namespace."""
        merged: dict[str, dict[str, MetadataValue]] = {}
        for hook in self.hooks.response_metadata:
            try:
                for namespace, values in hook.response_metadata(request, response).items():
                    merged.setdefault(namespace, {}).update(values)
            except PLUGIN_FAULTS as error:  # the response goes through (decision 1)
                self._response_failed(hook, error)
        return merged

    def _response_failed(self, hook: Plugin, error: BaseException) -> None:
        self._failed("ResponseStreaming", hook, error)
        self._metrics.response_phase_error()

    def _measured(self, point: str, hook: Plugin) -> _Measured:
        return _Measured(self._metrics, self._now, point, hook)

    def _failed(self, point: str, hook: Plugin, error: BaseException) -> None:
        self._metrics.plugin_error(point, hook.type, hook.name)
        self._faults.tell(hook.name, error, extension_point=point, plugin=hook.name, type=hook.type)
