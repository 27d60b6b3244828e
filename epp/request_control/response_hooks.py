"""The plugins that follow a response. Whatever they do, it goes through (decision 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from epp.request_control.budgets import finish_in_budget
from epp.scheduling.observer import PluginObserver
from epp.support.plugin_faults import PLUGIN_FAULTS, is_cancellation

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.plugin import Plugin
    from epp.framework.request import InferenceRequest, InferenceResponse, MetadataValue
    from epp.request_control.hooks import Hooks
    from epp.scheduling.overruns import Overruns
    from epp.scheduling.steps import Step, Steps


class HookObserver(PluginObserver, Protocol):
    """Is told how hooks fare; the process's metrics are one."""

    def response_phase_error(self) -> None:
        """A hook of the response phase failed."""


class ResponseHookRunner:
    """Runs the hooks of the response phase, measures them and counts what they raise."""

    def __init__(
        self,
        hooks: Hooks,
        steps: Steps,
        *,
        overruns: Overruns,
        metrics: HookObserver,
        now: Callable[[], float],
    ) -> None:
        self._overruns = overruns
        self._metrics = metrics
        self._now = now
        of = steps.of
        self._header = tuple(of("ResponseReceived", hook) for hook in hooks.response_header)
        self._body = tuple(of("ResponseStreaming", hook) for hook in hooks.response_body)
        self._progress = tuple(of("ResponseStreaming", hook) for hook in hooks.response_progress)
        self._metadata = tuple(of("ResponseStreaming", hook) for hook in hooks.response_metadata)
        self.follow_body = bool(hooks.response_body)
        """Whether any is shown every state of a response."""
        self.tell_metadata = bool(hooks.response_metadata)
        """Whether any tells the gateway something with the end of the body."""

    def response_header(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint | None
    ) -> None:
        """A failure is counted and costs that hook's changes."""
        for step in self._header:
            before, started = response.headers, self._now()
            response.headers = before.copy()
            try:
                step.plugin.response_header(request, response, endpoint)
            except PLUGIN_FAULTS as error:
                self._failed(step, error, request)
                response.headers = before
            finally:
                step.took(self._now() - started)

    async def response_body(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        """Show every hook the state of a response; failures are counted."""
        for step in self._body:
            hook = step.plugin
            if self._overruns.is_off(hook):
                continue
            started = self._now()
            try:
                pending = hook.response_body(request, response, endpoint)
                if pending is not None:
                    await finish_in_budget(
                        hook, pending, hook.timeout_seconds, self._overruns, request
                    )
            except PLUGIN_FAULTS as error:
                if is_cancellation(error):
                    raise
                self._failed(step, error, request)
            finally:
                step.took(self._now() - started)

    def first_chunk(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        """The first bytes of a response's body have come."""
        for step in self._progress:
            started = self._now()
            try:
                step.plugin.first_chunk(request, response, endpoint)
            except PLUGIN_FAULTS as error:
                self._failed(step, error, request)
            finally:
                step.took(self._now() - started)

    def ended(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        """A request that got an endpoint is over; every hook is told, whatever the others do."""
        for step in self._progress:
            started = self._now()
            try:
                step.plugin.ended(request, response, endpoint)
            except PLUGIN_FAULTS as error:
                self._failed(step, error, request)
            finally:
                step.took(self._now() - started)

    def response_metadata(
        self, request: InferenceRequest, response: InferenceResponse
    ) -> dict[str, dict[str, MetadataValue]]:
        """What the hooks tell the gateway about a response, by namespace."""
        merged: dict[str, dict[str, MetadataValue]] = {}
        for step in self._metadata:
            started = self._now()
            try:
                for namespace, values in step.plugin.response_metadata(request, response).items():
                    merged.setdefault(namespace, {}).update(values)
            except PLUGIN_FAULTS as error:
                self._failed(step, error, request)
            finally:
                step.took(self._now() - started)
        return merged

    def _failed(self, step: Step[Plugin], error: BaseException, request: InferenceRequest) -> None:
        step.failed(error, request)
        self._metrics.response_phase_error()
