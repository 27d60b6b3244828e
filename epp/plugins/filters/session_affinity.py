"""Session affinity as a hard constraint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from epp.framework.plugin import Stability
from epp.framework.scheduling import Filter
from epp.plugins.session_affinity.affinity import SessionAffinity

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest


class SessionAffinityFilter(SessionAffinity, Filter):
    """Keeps the endpoint that served the session before, if it is still there."""

    type = "session-affinity-filter"
    stability = Stability.ALPHA

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """The session's endpoint alone, else all."""
        pinned = self.pinned(request, endpoints)
        return list(endpoints) if pinned is None else [pinned]


class MulticlusterSessionAffinityFilter(SessionAffinityFilter):
    """Keeps the endpoint that served the session before, among those that stand for clusters."""

    type = "multicluster-session-affinity-filter"
