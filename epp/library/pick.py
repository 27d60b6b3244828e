"""One pick: where to send a request, and what becomes of it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from epp.framework.headers import Headers
from epp.framework.request import InferenceResponse, TerminationCause
from epp.request_control.body_hooks import BodyHooks
from epp.support.tasks import TaskOwner

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.scheduling_results import SchedulingResult
    from epp.framework.usage import Usage
    from epp.request_control.active_request import ActiveRequest


class Pick:
    """A request with an endpoint, where it counts as in flight until it is over.

    As a context manager it is over at the end of the block, as an error if the block raises.
    """

    def __init__(self, active: ActiveRequest) -> None:
        self._active = active
        self._has_token = False

    @property
    def endpoint(self) -> Endpoint:
        """Where to send the request."""
        return self._active.endpoints[0]

    @property
    def address(self) -> str:
        """The name under which the endpoint was added."""
        return self.endpoint.address

    @property
    def fallbacks(self) -> tuple[Endpoint, ...]:
        """Where to send it if the endpoint can't be reached, best first."""
        return self._active.endpoints[1:]

    @property
    def headers(self) -> Mapping[str, str | None]:
        """Headers to set on the request (`x-request-id`, those of plugins); None: to remove."""
        return _changes(self._active.request.headers)

    @property
    def reason(self) -> str:
        """Why this endpoint, in one line."""
        return self._active.reason

    @property
    def result(self) -> SchedulingResult | None:
        """Candidates, scores and totals of every profile that ran."""
        return self._active.result

    def responded(
        self, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Mapping[str, str | None]:
        """The response has begun. Gives the headers that plugins change; None: to remove."""
        return _changes(self._respond(status, headers).headers)

    def first_token(self) -> None:
        """The first token has come, so the prompt is computed; only the first call counts."""
        response = self._respond(200)
        if not self._has_token and not self._active.ended:
            self._has_token = True
            response.streaming = True
            self._active.hooks.first_chunk(self._active.request, response, self.endpoint)

    def done(self, status: int = 200, *, usage: Usage | None = None) -> None:
        """The response is complete; once the request is over, nothing more happens to it."""
        if not self._active.ended:
            self._respond(status).usage = usage
            self._active.end(TerminationCause.NATURAL)

    def failed(self) -> None:
        """There will be no complete response: not reached, broken off, given up."""
        self._active.end(TerminationCause.ERROR)

    def _respond(self, status: int, headers: Mapping[str, str] | None = None) -> InferenceResponse:
        active = self._active
        if active.response is None:
            active.response = InferenceResponse(
                headers=headers_of(headers), status=status, streaming=False, started=True
            )
            active.hooks.response_header(active.request, active.response, self.endpoint)
        return active.response

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.done()
        else:
            self.failed()


class BodyHooksAtOnce(BodyHooks):
    """Response body hooks without an event loop: none of them may wait."""

    def __init__(self) -> None:
        super().__init__(TaskOwner())

    def notify(self, active: ActiveRequest) -> None:
        """Show the hooks the response as it is now."""
        if active.response is None:
            return
        shown = active.hooks.response_body(active.request, active.response, active.endpoints[0])
        with contextlib.suppress(StopIteration):
            shown.send(None)
        shown.close()


def headers_of(values: Mapping[str, str] | None) -> Headers:
    """Headers as they would have come, names in lower case."""
    return Headers((name.lower(), value.encode()) for name, value in (values or {}).items())


def _changes(headers: Headers) -> Mapping[str, str | None]:
    return {
        name: None if value is None else value.decode("utf-8", "replace")
        for name, value in headers.changes.items()
    }
