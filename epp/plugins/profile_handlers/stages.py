"""Disaggregated serving: one profile for each stage of a request, one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from epp.framework.data_types import PEER_ENDPOINT, PREFIX_MATCH, TOKENIZED_PROMPT
from epp.framework.errors import ConfigError, DropReason, ErrorCode, PlainRejection
from epp.framework.plugin import PluginContext
from epp.framework.scheduling import ProfileHandler
from epp.framework.scheduling_results import ProfileResult, SchedulingResult

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.metric_specs import CounterSpec
    from epp.framework.request import InferenceRequest
    from epp.plugins.profile_handlers.deciders import StageDecider

Results = Mapping[str, ProfileResult | None]

DECISION_LABELS = ("plugin_name", "plugin_type", "model_name", "decision_type")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """The profile of each stage, and who decides whether it runs (None: it does not)."""

    decode: str
    prefill: str
    encode: str = ""
    prefill_decider: StageDecider | None = None
    encode_decider: StageDecider | None = None
    prefill_first: bool = False
    """Prefill always runs, before decode, rather than by its decider after it."""
    needs_prefill: bool = False
    """Whether prefill must have a profile; a stage without one is skipped otherwise."""
    allow_decode_only: bool = False
    """Whether decode does alone what a stage without endpoints should have done."""
    fields: Mapping[str, str]
    """By stage, the parameter that names its profile."""

    @property
    def roles(self) -> dict[str, str]:
        """Profile names by stage."""
        named = {"decode": self.decode, "prefill": self.prefill, "encode": self.encode}
        return {role: name for role, name in named.items() if name}


class StagedProfileHandler(ProfileHandler):
    """Runs the profiles of the stages in order; decode is the primary one."""

    def __init__(
        self,
        stages: Stages,
        context: PluginContext,
        decisions: CounterSpec,
        *,
        prefix_producer: str | None = None,
    ) -> None:
        self._stages = stages
        self._roles = stages.roles
        # Not read here: what deciders and the stages' scorers need is there with every handler
        # of stages, as in the reference (scheduling §8.2).
        context.consumes(PREFIX_MATCH, producer=prefix_producer)
        context.consumes(TOKENIZED_PROMPT)
        self._peer = context.produces(PEER_ENDPOINT)
        self._decisions = context.metrics.counter(decisions)
        self._labels = (context.name, context.plugin_type)
        self._model_label = context.metrics.model_label

    def check(self, profiles: Sequence[str]) -> None:
        """Decode must have a profile, and so must prefill if it is needed."""
        names = list(self._roles.values())
        if len(set(names)) < len(names):
            raise ConfigError(
                f"profile handler {self.name!r}: the stages must have different profiles,"
                f" got {', '.join(names)}"
            )
        for role in ("decode", "prefill") if self._stages.needs_prefill else ("decode",):
            if self._roles[role] not in profiles:
                raise ConfigError(self._missing(role, profiles))

    def doubts(self, profiles: Sequence[str]) -> Sequence[str]:
        """Stages that have a decider and no profile: skipped, as in the reference (§8.2)."""
        stages = self._stages
        deciders = {"prefill": stages.prefill_decider, "encode": stages.encode_decider}
        return [
            f"{self._missing(role, profiles)}; the stage is skipped, whatever its decider"
            f" {decider.name!r} says"
            for role, decider in deciders.items()
            if decider is not None and self._roles[role] not in profiles
        ]

    def _missing(self, role: str, profiles: Sequence[str]) -> str:
        return (
            f"profile handler {self.name!r}: {role} stage: there is no profile"
            f" {self._roles[role]!r} (parameters.{self._stages.fields[role]}), only"
            f" {', '.join(profiles) or 'none at all'}"
        )

    def pick(
        self, request: InferenceRequest, profiles: Sequence[str], results: Results
    ) -> Sequence[str]:
        """The stage that is next; none when the request has all that it needs, or can't get it."""
        if not self._stages.allow_decode_only and None in results.values():
            return ()
        following = self._after_prefill if self._stages.prefill_first else self._after_decode
        name = following(request, profiles, results)
        return (name,) if name else ()

    def process(self, request: InferenceRequest, results: Results) -> SchedulingResult:
        """What the stages picked.

        A stage that was to run and found no endpoint is a 503, so that its work does not land on
        decode pods unseen (pitfall 23), unless decode may do everything alone.
        """
        stages = self._stages
        if not stages.allow_decode_only:
            for role, name in (("prefill", stages.prefill), ("encode", stages.encode)):
                if name in results and results[name] is None:
                    raise PlainRejection(
                        ErrorCode.SERVICE_UNAVAILABLE,
                        f"{role} profile '{name}' was required but found no endpoint"
                        f" ({role}-filter goes by the label llm-d.ai/role)",
                        drop_reason=DropReason.NO_ENDPOINTS,
                        retry_after=1,
                    )
        picked = {name: result for name, result in results.items() if result is not None}
        if stages.decode not in picked:
            raise PlainRejection(
                ErrorCode.RESOURCE_EXHAUSTED, "failed to find available decode workers"
            )
        if not request.is_dry_run:
            self._count(request, picked)
        return SchedulingResult(primary=stages.decode, profiles=picked, roles=self._roles)

    def _after_decode(
        self, request: InferenceRequest, profiles: Sequence[str], results: Results
    ) -> str | None:
        stages = self._stages
        if stages.decode not in results:
            return stages.decode
        decode = results[stages.decode]
        # Encode is decided before prefill: once that ran, no decider is asked again.
        if decode is None or stages.prefill in results:
            return None
        endpoint = decode.endpoints[0]
        if self._wants_encode(request, profiles, results, endpoint):
            return stages.encode
        decider = stages.prefill_decider
        if stages.prefill in profiles and decider is not None and decider.wants(request, endpoint):
            self._peer.put(request, endpoint)
            return stages.prefill
        return None

    def _after_prefill(
        self, request: InferenceRequest, profiles: Sequence[str], results: Results
    ) -> str | None:
        stages = self._stages
        if stages.decode in results:
            return None
        if stages.prefill in profiles and stages.prefill not in results:
            return stages.prefill
        if self._wants_encode(request, profiles, results, None):
            return stages.encode
        prefill = results.get(stages.prefill)
        if prefill is not None:
            self._peer.put(request, prefill.endpoints[0])
        return stages.decode

    def _wants_encode(
        self,
        request: InferenceRequest,
        profiles: Sequence[str],
        results: Results,
        endpoint: Endpoint | None,
    ) -> bool:
        name, decider = self._stages.encode, self._stages.encode_decider
        if decider is None or name not in profiles or name in results:
            return False
        return decider.wants(request, endpoint)

    def _count(self, request: InferenceRequest, picked: Mapping[str, ProfileResult]) -> None:
        stages = self._stages
        encode = "encode-" if stages.encode in picked else ""
        prefill = "prefill-" if stages.prefill in picked else ""
        decision = f"{encode}{prefill}decode" if encode or prefill else "decode-only"
        model = self._model_label(request.target_model or "unknown")
        self._decisions.labels((*self._labels, model, decision)).inc()
