"""One revision for each request while a disaggregated deployment is rolled out (scheduling §13)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from epp.framework.data_layer import EndpointListener
from epp.framework.metric_specs import CounterSpec, GaugeSpec
from epp.framework.plugin import PluginContext, Stability
from epp.framework.request_control import ResponseHeader, Screener
from epp.plugins.label_selectors import parse_label_selector
from epp.plugins.screeners.revision_shares import GatingMode, count_by_role, revision_shares
from epp.plugins.screeners.rollout_parameters import RolloutScreenerParameters

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint, EndpointId
    from epp.framework.request import InferenceRequest, InferenceResponse

NO_MATCH = CounterSpec(
    name="llm_d_epp_disaggregatedset_strict_header_no_match_total",
    help="[ALPHA] Requests whose strict header matched no endpoint.",
    labels=("plugin_type", "plugin_name", "selector"),
)
GATING_SHARE = GaugeSpec(
    name="llm_d_epp_disaggregatedset_revision_gating_share",
    help="[ALPHA] Share of the requests that a revision gets; 0 while it lacks a role.",
    labels=("plugin_type", "plugin_name", "mode", "revision"),
)
_MOST_REVISIONS_SHOWN = 100


class DisaggregatedSetRolloutScreener(Screener, ResponseHeader, EndpointListener):
    """Lets each request see one revision of a disaggregated set, so that none are mixed."""

    type = "disaggregatedset-rollout-screener"
    stability = Stability.ALPHA
    metrics = (NO_MATCH, GATING_SHARE)

    def __init__(self, parameters: RolloutScreenerParameters, context: PluginContext) -> None:
        gating = parameters.revision_gating
        self._mode = GatingMode(gating.mode)
        self._revision_label = gating.revision_label_key
        self._role_label = gating.role_label_key
        self._required_roles = tuple(gating.require_roles.values)
        self._is_in_scope = parse_label_selector(parameters.scope.label_selector)
        self._rng: random.Random = context.rng
        self._members: dict[EndpointId, tuple[str, str]] = {}
        self._known_shares: dict[str, float] | None = None
        self._identity = (context.plugin_type, context.name)
        self._stamps = [
            (selector.header_name.lower(), selector.label_key)
            for selector in parameters.header_selectors
        ]
        counters = context.metrics.counter(NO_MATCH)
        self._strict = [
            (
                selector.header_name.lower(),
                selector.label_key,
                counters.labels((*self._identity, selector.name)),
            )
            for selector in parameters.header_selectors
            if selector.mode == "strict"
        ]
        if self._mode is not GatingMode.DISABLED:
            context.metrics.computed(GATING_SHARE, context.name, self._shares_as_series)

    def screen(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """The endpoints of one complete revision that the strict headers ask for; or none."""
        kept = list(endpoints)
        is_revision_drawn = self._mode is not GatingMode.DISABLED
        for header, label, no_match in self._strict:
            wanted = request.headers.get(header)
            if not wanted:
                continue
            kept = [endpoint for endpoint in kept if endpoint.labels.get(label) == wanted]
            if is_revision_drawn and label == self._revision_label:
                is_revision_drawn = False
                kept = kept if self._shares().get(wanted) else []
            if not kept:
                if not request.is_dry_run:
                    no_match.inc()
                return []
        return self._of_one_revision(kept) if is_revision_drawn else kept

    def response_header(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint | None
    ) -> None:
        """Tell the labels of the endpoint that served."""
        if endpoint is None:
            return
        for header, label in self._stamps:
            value = endpoint.labels.get(label)
            if value:
                response.headers.set(header, value)

    def endpoint_added(self, endpoint: Endpoint) -> None:
        """Count its pod, if it belongs to the set."""
        labels = endpoint.labels
        revision, role = labels.get(self._revision_label), labels.get(self._role_label)
        if revision and role and self._is_in_scope(labels):
            self._members[endpoint.id] = revision, role
        else:
            self._members.pop(endpoint.id, None)
        self._known_shares = None

    def endpoint_replaced(self, endpoint: Endpoint) -> None:
        """Its labels may be others."""
        self.endpoint_added(endpoint)

    def endpoint_removed(self, endpoint: Endpoint) -> None:
        """Its pod no longer counts."""
        self._members.pop(endpoint.id, None)
        self._known_shares = None

    def dump_state(self) -> object:
        """The share of each revision."""
        if self._mode is GatingMode.DISABLED:
            return None
        return {"mode": str(self._mode), "shares": dict(self._shares())}

    def _of_one_revision(self, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """Those of a revision drawn among the ones that have endpoints here."""
        label, shares = self._revision_label, self._shares()
        present = dict.fromkeys(endpoint.labels.get(label, "") for endpoint in endpoints)
        weights = {revision: shares[revision] for revision in present if shares.get(revision)}
        if not weights:
            return []
        drawn = self._rng.choices(list(weights), list(weights.values()))[0]
        return [endpoint for endpoint in endpoints if endpoint.labels.get(label) == drawn]

    def _shares(self) -> Mapping[str, float]:
        if self._known_shares is None:
            # Ranks of a pod are one pod.
            pods = {endpoint_id.pod_uid: pod for endpoint_id, pod in self._members.items()}
            counts = count_by_role(pods.values())
            self._known_shares = revision_shares(counts, self._required_roles, self._mode)
        return self._known_shares

    def _shares_as_series(self) -> Mapping[tuple[str, ...], float]:
        shown = islice(self._shares().items(), _MOST_REVISIONS_SHOWN)
        return {(*self._identity, self._mode, revision): share for revision, share in shown}
