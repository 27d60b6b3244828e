"""The plugins before a request is forwarded, and what their failures cost (decision 1)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from epp.framework.errors import DropReason, ErrorCode, PlainRejection, Rejection
from epp.framework.scheduling_results import FilterResult
from epp.request_control.budgets import finish_in_budget
from epp.request_control.plugin_threads import PluginThreads
from epp.request_control.response_hooks import ResponseHookRunner
from epp.scheduling.overruns import Overruns
from epp.scheduling.steps import Steps
from epp.support.plugin_faults import PLUGIN_FAULTS, PluginFault, is_cancellation

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.plugin import Plugin
    from epp.framework.request import InferenceRequest
    from epp.framework.request_control import DataProducer, PreRequest
    from epp.framework.scheduling_results import SchedulingResult
    from epp.request_control.hooks import Hooks
    from epp.request_control.response_hooks import HookObserver

_NOT_ADMITTED = "request cannot be admitted"


class HookRunner:
    """Runs the hooks before a request is forwarded, measures them and contains what they raise."""

    def __init__(
        self, hooks: Hooks, metrics: HookObserver, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.hooks = hooks
        self._now = now
        self._overruns = Overruns(metrics.plugin_switched_off)
        steps = Steps(metrics, now)
        of = steps.of
        self._request_header = tuple(of("RequestHeader", hook) for hook in hooks.request_header)
        self._screener = tuple(of("Screener", hook) for hook in hooks.screener)
        self._data_producer = tuple(of("DataProducer", hook) for hook in hooks.data_producer)
        self._admitter = tuple(of("Admission", hook) for hook in hooks.admitter)
        self._pre_request = tuple(of("PreRequest", hook) for hook in hooks.pre_request)
        self.response = ResponseHookRunner(
            hooks, steps, overruns=self._overruns, metrics=metrics, now=now
        )
        self.may_wait = bool(hooks.waiting_producers)
        """Whether a decision can take more than one turn of the event loop."""
        self._threads = PluginThreads()

    def is_off(self, plugin: Plugin) -> bool:
        """Whether `plugin` took too long again and again, and is not called any more."""
        return self._overruns.is_off(plugin)

    def request_header(self, request: InferenceRequest) -> None:
        """The first failure ends the request: a rejection as it is, anything else as 500."""
        for step in self._request_header:
            hook, started = step.plugin, self._now()
            try:
                hook.request_header(request)
            except Rejection:
                raise
            except PLUGIN_FAULTS as error:
                step.failed(error, request)
                failed = f'RequestHeader "{hook.name}/{hook.type}" failed'
                raise Rejection(
                    ErrorCode.INTERNAL, f"{failed}: {error}", log_message=failed
                ) from error
            finally:
                step.ended(request, started, self._now())

    def screen(
        self, request: InferenceRequest, endpoints: Sequence[Endpoint]
    ) -> Sequence[Endpoint]:
        """What every screener lets through; nothing left is a 503, what one raises is a fault."""
        kept = endpoints
        for step in self._screener:
            started = self._now()
            try:
                allowed = set(step.plugin.screen(request, endpoints))
            except Rejection:
                raise
            except PLUGIN_FAULTS as error:
                step.failed(error, request)
                raise
            finally:
                seconds = step.ended(request, started, self._now())
            before, kept = kept, [endpoint for endpoint in kept if endpoint in allowed]
            if request.trail is not None:
                result = FilterResult(step.name, before, kept, started, seconds)
                request.trail.screenings += (result,)
        if not kept:
            raise PlainRejection(
                ErrorCode.SERVICE_UNAVAILABLE,
                "screeners eliminated all endpoint candidates",
                drop_reason=DropReason.NO_ENDPOINTS,
                retry_after=1,
            )
        return kept

    async def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        """Run the producers one after another; one that fails or is late costs its own data."""
        started = self._now()
        for step in self._data_producer:
            hook, holds_up = step.plugin, False
            if self._overruns.is_off(hook):
                continue
            try:
                if hook.runs_in_thread:
                    await self._produce_in_thread(hook, request, endpoints)
                elif (pending := hook.produce(request, endpoints)) is not None:
                    await self._wait_for(hook, pending, request)
                else:
                    holds_up = True
            except PLUGIN_FAULTS as error:  # its data is missing, the request goes on
                if is_cancellation(error):
                    raise
                step.failed(error, request)
            finally:
                ended = self._now()
                seconds = step.ended(request, started, ended)
                started = ended
            if holds_up:
                self._overruns.took(hook, seconds, hook.timeout_seconds, request)

    async def _wait_for(
        self, hook: DataProducer, pending: Awaitable[None], request: InferenceRequest
    ) -> None:
        if not self.may_wait:
            raise PluginFault(f"{hook.name!r} waits, but its produce is no `async def`")
        await finish_in_budget(hook, pending, hook.timeout_seconds, self._overruns, request)

    async def _produce_in_thread(
        self, hook: DataProducer, request: InferenceRequest, endpoints: Sequence[Endpoint]
    ) -> None:
        started = self._now()
        try:
            async with asyncio.timeout(hook.timeout_seconds):
                await self._threads.run(partial(hook.produce, request, endpoints))
        finally:
            # A thread can't be interrupted either, and there are few for all plugins.
            if not self._overruns.is_off(hook):
                self._overruns.took(hook, self._now() - started, hook.timeout_seconds, request)

    def admit(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        """The first denial ends the request, with the status it asks for."""
        for step in self._admitter:
            started = self._now()
            try:
                step.plugin.admit(request, endpoints)
            except Rejection as denial:
                saturated = denial.code is ErrorCode.RESOURCE_EXHAUSTED
                raise Rejection(
                    denial.code,
                    f"{_NOT_ADMITTED}: {denial.message}",
                    log_message=f"{_NOT_ADMITTED}: {denial.log_message}",
                    drop_reason=denial.drop_reason or (DropReason.SATURATED if saturated else None),
                    retry_after=denial.retry_after or (1 if saturated else None),
                ) from denial
            except PLUGIN_FAULTS as error:
                step.failed(error, request)
                raise Rejection(
                    ErrorCode.INTERNAL,
                    f"{_NOT_ADMITTED}: {error}",
                    log_message=f'{_NOT_ADMITTED}: "{step.name}" failed',
                ) from error
            finally:
                step.ended(request, started, self._now())

    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        """All of them run; then a rejection goes out as it is, anything else is a 500."""
        failures: list[tuple[PreRequest, BaseException]] = []
        for step in self._pre_request:
            started = self._now()
            try:
                step.plugin.pre_request(request, result)
            except Rejection as rejection:
                failures.append((step.plugin, rejection))
            except PLUGIN_FAULTS as error:  # reported together below
                step.failed(error, request)
                failures.append((step.plugin, error))
            finally:
                step.ended(request, started, self._now())
        if not failures:
            return
        first = failures[0][1]
        if len(failures) == 1 and isinstance(first, Rejection):
            raise first
        told = [(f'PreRequest "{hook.name}/{hook.type}" failed', error) for hook, error in failures]
        raise Rejection(
            ErrorCode.INTERNAL,
            "; ".join(f"{failed}: {error}" for failed, error in told),
            log_message="; ".join(failed for failed, _ in told),
        ) from first
