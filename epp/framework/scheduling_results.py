"""What comes of a scheduling cycle: the endpoints, and how each profile came to its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint


class ReportedLoad(Struct, frozen=True, gc=False):
    """What a model server had reported of its load when an endpoint of it was scored.

    Not the `EndpointMetrics` themselves, whose names of adapters may be large.
    """

    waiting_queue_size: int
    running_requests_size: int
    kv_cache_usage: float
    updated_at: float | None
    """Monotonic seconds; None: it had never been heard of."""


class ScorerResult(Struct, frozen=True):
    """What one scorer of a profile said."""

    name: str
    weight: float
    scores: Sequence[float]
    """Clamped, in the order of the profile's candidates."""
    started_at: float | None = None
    """Monotonic seconds; None: it was not asked, these scores are kept from another request."""
    seconds: float = 0.0
    type: str = ""
    """The scorer's type; empty: not known."""


class FilterResult(Struct, frozen=True):
    """What one filter of a profile left over."""

    name: str
    before: Sequence[Endpoint]
    after: Sequence[Endpoint]
    started_at: float | None = None
    """Monotonic seconds; None: not measured."""
    seconds: float = 0.0


class ProfileResult(Struct, frozen=True, kw_only=True):
    """How one profile came to its endpoints."""

    endpoints: tuple[Endpoint, ...]
    """The picked ones, best first; never empty but in a trail, where nothing was picked."""
    candidates: Sequence[Endpoint] = ()
    """Those that the filters left, in the order of all scores and totals."""
    totals: Sequence[float] = ()
    scorers: Sequence[ScorerResult] = ()
    loads: Sequence[ReportedLoad] = ()
    """What scorers saw of the load, in the order of `candidates`; empty: not kept."""
    filters: Sequence[FilterResult] = ()
    picker: str = ""
    """What picked, by name."""
    started_at: float | None = None
    """Monotonic seconds, as is `picking_at`; None: not measured."""
    seconds: float = 0.0
    """From the first filter to the end of the pick."""
    picking_at: float | None = None
    """When the picker was called, the profile's last step."""

    @property
    def picked(self) -> Endpoint:
        """The best of `endpoints` as plugins were shown it: it may have got another port since."""
        endpoint = self.endpoints[0]
        if endpoint in self.candidates:
            return endpoint
        return next((each for each in self.candidates if each.id == endpoint.id), endpoint)


class SchedulingResult(Struct, frozen=True, kw_only=True):
    """What was decided."""

    primary: str
    """Name of the profile whose endpoints the gateway is sent to."""
    profiles: Mapping[str, ProfileResult]
    """By name; the ones that ran and picked."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Profile names by stage: `prefill`, `decode`, `encode`."""

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Endpoints of the primary profile, best first."""
        return self.profiles[self.primary].endpoints

    def stage(self, role: str) -> ProfileResult | None:
        """What the profile of a stage picked, under whatever name it is configured."""
        return self.profiles.get(self.roles.get(role, role))

    @property
    def learning_endpoints(self) -> tuple[Endpoint, ...]:
        """The endpoints that will hold the prompt: first of the primary profile and of prefill."""
        first = self.endpoints[0]
        prefill = self.stage("prefill")
        if prefill is None or prefill.endpoints[0] is first:
            return (first,)
        return first, prefill.endpoints[0]
