"""The two ways to recognize a session: the endpoint's name in a header, or a session id."""

from __future__ import annotations

import base64
import binascii
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from epp.framework.data import DataType, Scope
from epp.framework.data_types import AGENT_IDENTITY, SESSION_ID
from epp.framework.plugin import PluginContext
from epp.plugins.session_affinity.parameters import SessionIdConfig, SessionSource
from epp.plugins.session_affinity.table import SessionTable

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest, InferenceResponse
    from epp.framework.scheduling_results import SchedulingResult


class Strategy(ABC):
    """How a session finds its endpoint again."""

    def __init__(self, profile: str, instance: str) -> None:
        self._profile = profile
        self._key = f"session-affinity/{instance}"

    @abstractmethod
    def pinned(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> Endpoint | None:
        """The endpoint of the request's session, if it is among `endpoints`."""

    @abstractmethod
    def decided(self, request: InferenceRequest, result: SchedulingResult) -> None:
        """Endpoints were picked."""

    @abstractmethod
    def answered(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint | None
    ) -> None:
        """The response has begun."""

    def state(self) -> object:
        """What there is to show."""
        return None

    def _target(self, result: SchedulingResult) -> Endpoint | None:
        """The endpoint a session is pinned to; None if its profile picked nothing."""
        if not self._profile:
            return result.endpoints[0]
        picked = result.stage(self._profile)
        return picked.endpoints[0] if picked is not None else None


class EncodedEndpointHeader(Strategy):
    """The client carries `namespace/name` of an endpoint in base64. Nothing is kept here."""

    def __init__(self, header: str, profile: str, instance: str) -> None:
        super().__init__(profile, instance)
        self._header = header.lower()

    def pinned(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> Endpoint | None:
        namespace, _, name = _decoded(request.headers.get(self._header)).partition("/")
        if not name:
            return None
        for endpoint in endpoints:
            if endpoint.name == name and endpoint.namespace == namespace:
                return endpoint
        return None

    def decided(self, request: InferenceRequest, result: SchedulingResult) -> None:
        if self._profile:
            request.attributes[self._key] = self._target(result)

    def answered(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint | None
    ) -> None:
        if self._profile:
            endpoint = cast("Endpoint | None", request.attributes.get(self._key))
        if endpoint is not None:
            name = f"{endpoint.namespace}/{endpoint.name}".encode()
            response.headers.set(self._header, base64.b64encode(name))


class SessionId(Strategy):
    """The client names its session, and a table here knows the endpoint.

    Endpoints that are gone need not be taken out: their sessions bind anew with the next request,
    and an endpoint's id never comes back for another one.
    """

    def __init__(self, config: SessionIdConfig, profile: str, context: PluginContext) -> None:
        super().__init__(profile, context.name)
        self._readers = [_reader(source, context) for source in config.sources]
        self._table = SessionTable(config.eviction_ttl_seconds, context.now)

    def pinned(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> Endpoint | None:
        session = self._session(request)
        bound = self._table.bound(session) if session else None
        if bound is None:
            return None
        for endpoint in endpoints:
            if endpoint.id == bound:
                request.attributes[self._key] = True
                return endpoint
        request.attributes.setdefault(self._key, False)
        return None

    def decided(self, request: InferenceRequest, result: SchedulingResult) -> None:
        """A session moves only when its endpoint was not to be had."""
        session, target = self._session(request), self._target(result)
        if not session or target is None:
            return
        was_available = request.attributes.get(self._key, True)
        bound = self._table.bound(session)
        if bound is None or bound == target.id or not was_available:
            self._table.bind(session, target.id)

    def answered(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint | None
    ) -> None:
        """Nothing: the client knows its session id already."""

    def state(self) -> object:
        return {"sessions": len(self._table)}

    def _session(self, request: InferenceRequest) -> str:
        for read in self._readers:
            session = (read(request) or "").strip()
            if session:
                return session
        return ""


_KNOWN = {data_type.name: data_type for data_type in (SESSION_ID, AGENT_IDENTITY)}


def _reader(
    source: SessionSource, context: PluginContext
) -> Callable[[InferenceRequest], str | None]:
    if source.header:
        header = source.header.lower()
        return lambda request: request.headers.get(header)
    data_type = _KNOWN.get(source.attribute)
    if data_type is None:
        data_type = DataType(name=source.attribute, scope=Scope.REQUEST, value=str)
    return context.consumes(data_type, producer=source.producer or None).of_request


def _decoded(token: str | None) -> str:
    """What a client sent back; empty for anything that was never given out."""
    try:
        return base64.b64decode(token or "", validate=True).decode()
    except (binascii.Error, ValueError):
        return ""
