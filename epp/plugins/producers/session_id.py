"""The session id of a request, from a header or a cookie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from epp.framework.data_types import SESSION_ID
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.request_control import DataProducer
from epp.plugins.header_names import OptionalHeaderName

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.headers import Headers
    from epp.framework.request import InferenceRequest


class SessionIdParameters(Parameters):
    """Where the session id stands; exactly one of the two."""

    header_name: OptionalHeaderName = Field("", description="Request header.")
    cookie_name: str = Field("", description="Cookie of the request.")

    @model_validator(mode="after")
    def _check_that_one_is_given(self) -> SessionIdParameters:
        if bool(self.header_name) == bool(self.cookie_name.strip()):
            raise ValueError("exactly one of headerName and cookieName must be given")
        return self


class SessionIdProducer(DataProducer):
    """Reads the session id of a request from a header or a cookie."""

    type = "session-id-producer"
    stability = Stability.BETA

    def __init__(self, parameters: SessionIdParameters, context: PluginContext) -> None:
        self._header = parameters.header_name.lower()
        self._cookie = parameters.cookie_name.strip()
        self._session_id = context.produces(SESSION_ID)

    def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        """Put the session id on the request, if there is one."""
        headers = request.headers
        value = headers.get(self._header) if self._header else _cookie(headers, self._cookie)
        session_id = (value or "").strip()
        if session_id:
            self._session_id.put(request, session_id)


def _cookie(headers: Headers, wanted: str) -> str | None:
    """The first cookie of that name; HTTP/2 may bring each cookie in a header of its own."""
    for header, raw in headers:
        if header != "cookie":
            continue
        for pair in raw.decode("utf-8", "replace").split(";"):
            name, is_pair, value = pair.partition("=")
            if is_pair and name.strip() == wanted:
                return value.strip().removeprefix('"').removesuffix('"')
    return None
