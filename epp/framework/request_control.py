"""Contracts of the hooks around scheduling, in the order the director calls them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from epp.framework.plugin import Plugin

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest, InferenceResponse, MetadataValue
    from epp.framework.scheduling_results import SchedulingResult


class RequestHeader(Plugin):
    """Sees a request before anything is decided about it."""

    @abstractmethod
    def request_header(self, request: InferenceRequest) -> None:
        """Put attributes on `request`; the first exception ends the request."""


class Screener(Plugin):
    """Takes endpoints out of the candidates for a request."""

    @abstractmethod
    def screen(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """The endpoints that may serve `request`; sees all of them, results are intersected."""


class DataProducer(Plugin):
    """Computes what filters and scorers read. Failing costs its data only."""

    timeout_seconds: float = 0.4
    """Budget of an asynchronous producer; it is cancelled when it is spent. One that is not can't
    be interrupted: it is switched off after having taken longer again and again (decision 18)."""
    runs_in_thread: ClassVar[bool] = False
    """Whether `produce`, which is not asynchronous then, runs in a thread of its own."""

    @abstractmethod
    def produce(
        self, request: InferenceRequest, endpoints: Sequence[Endpoint]
    ) -> Awaitable[None] | None:
        """Write what it `produces`. May be `async def`; else it must not wait for anything."""


class Admitter(Plugin):
    """Decides whether a request is served at all."""

    @abstractmethod
    def admit(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        """Raise to deny: a `Rejection` keeps its status, anything else is a 500."""


class PreRequest(Plugin):
    """Acts on the decision before it is answered; what it adds is taken back in `ended`."""

    @abstractmethod
    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        """All of them run; an exception rejects the request afterwards."""


class ResponseHeader(Plugin):
    """Sees, and may change, the response headers."""

    @abstractmethod
    def response_header(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint | None
    ) -> None:
        """Change `response.headers`; an exception is counted and leaves them as they were."""


class ResponseBody(Plugin):
    """Follows the response body. Called after the bytes went to the client."""

    timeout_seconds: float = 10.0
    """Budget of an asynchronous call; it is cancelled when it is spent."""

    @abstractmethod
    def response_body(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> Awaitable[None] | None:
        """Called in order; exactly one call has `response.ended`. May be `async def`."""


class ResponseProgress(Plugin):
    """Follows a response at its turning points, in the same step of the event loop."""

    def first_chunk(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        """The first bytes of the body have come; at most once, never if there is no body."""

    def ended(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        """The request is over, whatever ended it; exactly once for each that got an endpoint."""


class ResponseMetadata(Plugin):
    """Tells the gateway something about a response when all of it is known."""

    @abstractmethod
    def response_metadata(
        self, request: InferenceRequest, response: InferenceResponse
    ) -> Mapping[str, Mapping[str, MetadataValue]]:
        """Namespaces of values sent as dynamic metadata with the last piece of the body."""
