"""Which agent a request comes from, by the session headers that agents send."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from epp.framework.data_types import AGENT_IDENTITY
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.request_control import RequestHeader
from epp.plugins.header_names import OptionalHeaderName

if TYPE_CHECKING:
    from epp.framework.request import InferenceRequest

_SESSION_HEADERS = ("x-claude-code-session-id", "x-session-affinity", "session-id", "session_id")


class AgentIdentityParameters(Parameters):
    """Where else the identity may stand."""

    additional_session_headers: list[OptionalHeaderName] = Field(
        [], description="Headers that are looked at before the usual ones."
    )


class AgentIdentity(RequestHeader):
    """Tells agents apart by their session headers, for fairness and session affinity."""

    type = "agent-identity"
    stability = Stability.ALPHA

    def __init__(self, parameters: AgentIdentityParameters, context: PluginContext) -> None:
        additional = [name.lower() for name in parameters.additional_session_headers]
        self._headers = (*filter(None, additional), *_SESSION_HEADERS)
        self._identity = context.produces(AGENT_IDENTITY)

    def request_header(self, request: InferenceRequest) -> None:
        """Put the first identity that is not empty on the request."""
        for name in self._headers:
            identity = (request.headers.get(name) or "").strip()
            if identity:
                self._identity.put(request, identity)
                return
