"""The parameters that all pickers have."""

from __future__ import annotations

from pydantic import Field

from epp.framework.plugin import Parameters


class PickerParameters(Parameters):
    """How many endpoints are picked."""

    max_num_of_endpoints: int = Field(
        1, description="Most endpoints to pick, best first; zero and less mean 1."
    )

    @property
    def limit(self) -> int:
        """At least 1."""
        return max(1, self.max_num_of_endpoints)
