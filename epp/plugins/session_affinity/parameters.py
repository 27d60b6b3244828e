"""What is configured of session affinity (scheduling §9.1)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from epp.framework.plugin import Parameters
from epp.plugins.header_names import OptionalHeaderName, SettableHeaderName


class EncodedEndpointHeaderConfig(Parameters):
    """Where the endpoint's name is carried."""

    header: SettableHeaderName = Field(
        "x-session-token", min_length=1, description="Header of requests and responses."
    )


class SessionSource(Parameters):
    """Where a session id is read from: a header or an attribute of the request."""

    header: OptionalHeaderName = Field("", description="Request header.")
    attribute: str = Field("", description="Attribute that another plugin puts on the request.")
    producer: str = Field("", description="Plugin that puts it; empty: the one there is.")

    @model_validator(mode="after")
    def _check_that_one_is_given(self) -> SessionSource:
        if bool(self.header) == bool(self.attribute):
            raise ValueError("exactly one of header and attribute must be given")
        if self.producer and not self.attribute:
            raise ValueError("producer goes with attribute only")
        if "/" in self.attribute:
            raise ValueError(
                f"attribute is {self.attribute!r}; allowed: a name without a slash, the producer"
                " goes into producer"
            )
        return self


class SessionIdConfig(Parameters):
    """How sessions are recognized and for how long they are remembered."""

    sources: list[SessionSource] = Field(
        [SessionSource(header="x-session-id")],
        min_length=1,
        description="Where the session id comes from; the first that is not empty counts.",
    )
    eviction_ttl_seconds: float = Field(
        300.0, gt=0, description="Time after which an idle session is forgotten."
    )
    eviction_sweep_seconds: float = Field(
        10.0, gt=0, description="Accepted and ignored: sessions end exactly at their time."
    )


class SessionAffinityParameters(Parameters):
    """How requests are told to belong together."""

    strategy: Literal["encoded_endpoint_header", "session_id"] = Field(
        "encoded_endpoint_header",
        description="Whether the client carries the endpoint's name, or a session id of its own.",
    )
    profile_name: str = Field(
        "", description="Profile whose endpoint the session is pinned to; empty: the primary one."
    )
    encoded_endpoint_header_config: EncodedEndpointHeaderConfig = Field(
        EncodedEndpointHeaderConfig(), description="Of strategy encoded_endpoint_header."
    )
    session_id_config: SessionIdConfig = Field(
        SessionIdConfig(), description="Of strategy session_id."
    )
