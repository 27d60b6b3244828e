"""The headers of disaggregated serving for handlers that don't write them themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from epp.framework.plugin import Parameters, Stability
from epp.framework.request_control import PreRequest
from epp.plugins.profile_handlers.stage_headers import write_stage_headers

if TYPE_CHECKING:
    from epp.framework.request import InferenceRequest
    from epp.framework.scheduling_results import SchedulingResult


class DisaggHeadersParameters(Parameters):
    """What the profiles of the stages are called."""

    prefill_profile: str = Field("prefill", description="Name of the prefill stage's profile.")
    encode_profile: str = Field("encode", description="Name of the encode stage's profile.")


class DisaggHeadersHandler(PreRequest):
    """Tells the decode pod's sidecar which endpoints were picked for prefill and encode."""

    type = "disagg-headers-handler"
    stability = Stability.DEPRECATED
    replaced_by = "disagg-profile-handler"

    def __init__(self, parameters: DisaggHeadersParameters) -> None:
        self._prefill = parameters.prefill_profile
        self._encode = parameters.encode_profile

    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        """Write the headers of the stages that ran, and remove those of the others."""
        write_stage_headers(
            request.headers,
            prefill=result.profiles.get(self._prefill),
            encode=result.profiles.get(self._encode),
        )


class PrefillHeaderHandler(DisaggHeadersHandler):
    """Tells the decode pod's sidecar which endpoints were picked for prefill and encode."""

    type = "prefill-header-handler"
