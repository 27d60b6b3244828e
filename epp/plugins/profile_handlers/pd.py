"""Prefill and decode on pods of their own, in the form that came before the disagg handler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from epp.framework.metric_specs import CounterSpec, Twin
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.plugins.profile_handlers.deciders import decider_named
from epp.plugins.profile_handlers.primary_port import LAST_PORT, PORT_FIELD, sent_to_primary_port
from epp.plugins.profile_handlers.stages import (
    DECISION_LABELS,
    Results,
    StagedProfileHandler,
    Stages,
)

if TYPE_CHECKING:
    from epp.framework.request import InferenceRequest
    from epp.framework.scheduling_results import SchedulingResult

PD_DECISIONS = CounterSpec(
    name="llm_d_epp_pd_decision_total",
    help="[ALPHA] Requests by whether an endpoint was picked for prefill.",
    labels=DECISION_LABELS,
    expendable=("model_name",),
    twin=Twin(
        name="llm_d_inference_scheduler_pd_decision_total",
        keeps=("model_name", "decision_type"),
    ),
)


class PdParameters(Parameters):
    """The two stages."""

    decode_profile: str = Field("decode", description="Profile of the decode stage.")
    prefill_profile: str = Field("prefill", description="Profile of the prefill stage.")
    decider_plugin_name: str = Field(
        "prefix-based-pd-decider", min_length=1, description="Decider of the prefill stage."
    )
    allow_decode_only: bool = Field(
        False,
        description="Whether decode serves alone when prefill should run and has no endpoint.",
    )
    primary_port: int = Field(0, ge=0, le=LAST_PORT, description=PORT_FIELD)
    prefix_match_info_producer_name: str = Field(
        "", description="Producer whose prefix matches are required; empty: the default one."
    )
    prefix_plugin_type: str = Field("", description="Ignored.")
    prefix_plugin_name: str = Field("", description="Ignored.")


class PdProfileHandler(StagedProfileHandler):
    """Runs the decode profile, then the prefill profile if the decider says so.

    A request that should be prefilled elsewhere when no endpoint is there for it gets a 503; the
    reference's silent fallback is had with `allowDecodeOnly: true`.
    """

    type = "pd-profile-handler"
    stability = Stability.DEPRECATED
    replaced_by = "disagg-profile-handler"
    metrics = (PD_DECISIONS,)

    def __init__(self, parameters: PdParameters, context: PluginContext) -> None:
        stages = Stages(
            decode=parameters.decode_profile,
            prefill=parameters.prefill_profile,
            prefill_decider=decider_named(
                context, parameters.decider_plugin_name, field="deciderPluginName"
            ),
            needs_prefill=True,
            allow_decode_only=parameters.allow_decode_only,
            fields={"decode": "decodeProfile", "prefill": "prefillProfile"},
        )
        producer = parameters.prefix_match_info_producer_name or None
        super().__init__(stages, context, PD_DECISIONS, prefix_producer=producer)
        self._port = parameters.primary_port

    def process(self, request: InferenceRequest, results: Results) -> SchedulingResult:
        """What the stages picked; decode at the primary port if there is one."""
        return sent_to_primary_port(request, super().process(request, results), self._port)
