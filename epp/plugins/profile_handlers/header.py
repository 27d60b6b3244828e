"""The client, or a proxy before us, names the profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import structlog
from pydantic import Field

from epp.framework.errors import ConfigError
from epp.framework.plugin import Parameters, Stability
from epp.framework.scheduling import ProfileHandler
from epp.framework.scheduling_results import ProfileResult, SchedulingResult
from epp.plugins.header_names import OptionalHeaderName
from epp.plugins.profile_handlers.single import outcome_of_one

if TYPE_CHECKING:
    from epp.framework.request import InferenceRequest

log = structlog.get_logger(__name__)

DEFAULT_HEADER = "EPP-Profile"
DEFAULT_PROFILE = "decode"


class HeaderProfileParameters(Parameters):
    """Where the name of the profile is read."""

    header_name: OptionalHeaderName = Field(
        DEFAULT_HEADER, description="Request header whose value names the profile."
    )
    default_profile: str = Field(
        DEFAULT_PROFILE, description="Profile of requests on which the header is absent or blank."
    )


class HeaderProfileHandler(ProfileHandler):
    """Runs the profile that a request header names.

    The only profile there is runs whatever the header says. A name that is not configured gets
    the client a 429, as in the reference.
    """

    type = "header-profile-handler"
    stability = Stability.ALPHA

    def __init__(self, parameters: HeaderProfileParameters) -> None:
        self._header = parameters.header_name.lower() or DEFAULT_HEADER.lower()
        self._default = parameters.default_profile.strip() or DEFAULT_PROFILE
        self._default_is_given = "default_profile" in parameters.model_fields_set

    def check(self, profiles: Sequence[str]) -> None:
        """A default that is given must exist; without one, every request may have the header."""
        if self._default_is_given and len(profiles) > 1 and self._default not in profiles:
            raise ConfigError(
                f"profile handler {self.name!r}: parameters.defaultProfile: {self._default!r} is"
                f" no profile; there are {', '.join(profiles)}"
            )

    def pick(
        self,
        request: InferenceRequest,
        profiles: Sequence[str],
        results: Mapping[str, ProfileResult | None],
    ) -> Sequence[str]:
        """The profile that the header names; none if there is none of that name."""
        if results:
            return ()
        if len(profiles) == 1:
            return profiles
        name = (request.headers.get(self._header) or "").strip() or self._default
        if name in profiles:
            return (name,)
        log.debug("no scheduling profile of the name that was asked for", header=self._header)
        return ()

    def process(
        self, request: InferenceRequest, results: Mapping[str, ProfileResult | None]
    ) -> SchedulingResult:
        """What that profile picked."""
        return outcome_of_one(results)
