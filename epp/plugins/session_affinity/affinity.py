"""What the filter and the scorer share: they differ in what they make of the pinned endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from epp.framework.plugin import PluginContext
from epp.framework.request_control import PreRequest, ResponseHeader
from epp.plugins.session_affinity.parameters import SessionAffinityParameters
from epp.plugins.session_affinity.strategies import EncodedEndpointHeader, SessionId, Strategy

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest, InferenceResponse
    from epp.framework.scheduling_results import SchedulingResult


class SessionAffinity(PreRequest, ResponseHeader):
    """Knows the endpoint of a session, by the strategy that is configured."""

    def __init__(self, parameters: SessionAffinityParameters, context: PluginContext) -> None:
        profile = parameters.profile_name
        self._strategy: Strategy
        if parameters.strategy == "session_id":
            self._strategy = SessionId(parameters.session_id_config, profile, context)
        else:
            header = parameters.encoded_endpoint_header_config.header
            self._strategy = EncodedEndpointHeader(header, profile, context.name)

    def pinned(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> Endpoint | None:
        """The endpoint of the request's session, if it is among `endpoints`."""
        return self._strategy.pinned(request, endpoints)

    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        """Remember what was decided."""
        self._strategy.decided(request, result)

    def response_header(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint | None
    ) -> None:
        """Tell the client what to come back with."""
        self._strategy.answered(request, response, endpoint)

    def dump_state(self) -> object:
        """How many sessions are known; never which."""
        return self._strategy.state()
