"""Session affinity as a preference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from epp.framework.plugin import Stability
from epp.framework.scheduling import Scorer
from epp.plugins.session_affinity.affinity import SessionAffinity

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest


class SessionAffinityScorer(SessionAffinity, Scorer):
    """Prefers the endpoint that served the session before."""

    type = "session-affinity-scorer"
    stability = Stability.ALPHA

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        """1 for the session's endpoint, 0 for the others."""
        pinned = self.pinned(request, endpoints)
        return [1.0 if endpoint is pinned else 0.0 for endpoint in endpoints]
