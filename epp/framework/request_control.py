"""Contracts of the hooks around scheduling, in the order the director calls them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest, InferenceResponse
    from epp.framework.scheduling import SchedulingResult


class Hook(ABC):
    """A named plugin of the request path."""

    type: ClassVar[str]

    @property
    def name(self) -> str:
        """Name in logs and metrics; the type unless configured otherwise."""
        return self.type


class RequestHeader(Hook):
    """Sees a request before anything is decided about it."""

    @abstractmethod
    def request_header(self, request: InferenceRequest) -> None:
        """Put attributes on `request`; the first exception ends the request."""


class Screener(Hook):
    """Takes endpoints out of the candidates for a request."""

    @abstractmethod
    def screen(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """The endpoints that may serve `request`; sees all of them, results are intersected."""


class DataProducer(Hook):
    """Computes what filters and scorers read. Failing costs its data only."""

    timeout_seconds: ClassVar[float] = 0.4
    """Budget of an asynchronous producer; it is cancelled when it is spent."""

    @abstractmethod
    def produce(
        self, request: InferenceRequest, endpoints: Sequence[Endpoint]
    ) -> Awaitable[None] | None:
        """Put attributes on `request`. May be `async def`."""


class Admitter(Hook):
    """Decides whether a request is served at all."""

    @abstractmethod
    def admit(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        """Raise to deny: a `Rejection` keeps its status, anything else is a 500."""


class PreRequest(Hook):
    """Acts on the decision before it is answered. Its effects are undone in `ResponseBody`."""

    @abstractmethod
    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        """All of them run; an exception rejects the request afterwards."""


class ResponseHeader(Hook):
    """Sees, and may change, the response headers."""

    @abstractmethod
    def response_header(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint | None
    ) -> None:
        """Change `response.headers`; an exception is counted and leaves them as they were."""


class ResponseBody(Hook):
    """Follows the response body. Called after the bytes went to the client."""

    @abstractmethod
    def response_body(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> Awaitable[None] | None:
        """Called in order; exactly one call has `response.ended`. May be `async def`."""
