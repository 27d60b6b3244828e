"""Encode, prefill and decode on pods of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epp.framework.metric_specs import CounterSpec, Twin
from epp.framework.plugin import PluginContext
from epp.framework.request_control import PreRequest
from epp.plugins.profile_handlers.deciders import decider_named
from epp.plugins.profile_handlers.disagg_parameters import PREFILL_FIRST, DisaggParameters
from epp.plugins.profile_handlers.stage_headers import write_stage_headers
from epp.plugins.profile_handlers.stages import DECISION_LABELS, StagedProfileHandler, Stages

if TYPE_CHECKING:
    from epp.framework.request import InferenceRequest
    from epp.framework.scheduling_results import SchedulingResult

DISAGG_DECISIONS = CounterSpec(
    name="llm_d_epp_disagg_decision_total",
    help="[ALPHA] Requests by the stages that endpoints were picked for.",
    labels=DECISION_LABELS,
    expendable=("model_name",),
    twin=Twin(
        name="llm_d_inference_scheduler_disagg_decision_total",
        keeps=("model_name", "decision_type"),
    ),
)


class DisaggProfileHandler(StagedProfileHandler, PreRequest):
    """Runs the profiles of decode, encode and prefill, as far as a request needs them.

    A request that should be prefilled or encoded elsewhere when no endpoint is there for it gets
    a 503. The reference lets decode pods do that work without a word, which slows down everything
    that they serve; who relies on it sets `allowDecodeOnly: true`. Requests whose decider says no
    are decode's alone in either case.

    Requests are sent to the decode endpoint. Where the others are, the sidecar in its pod reads in
    the headers `x-prefiller-host-port` (`ip:port`) and `x-encoder-hosts-ports` (several, with
    commas) and acts on it; without such a sidecar decode pods do all the work.
    """

    type = "disagg-profile-handler"
    metrics = (DISAGG_DECISIONS,)

    def __init__(self, parameters: DisaggParameters, context: PluginContext) -> None:
        stages = Stages(
            decode=parameters.decode,
            prefill=parameters.prefill,
            encode=parameters.encode,
            prefill_decider=decider_named(
                context, parameters.prefill_decider, field=parameters.prefill_decider_field
            ),
            encode_decider=decider_named(
                context, parameters.encode_decider, field=parameters.encode_decider_field
            ),
            prefill_first=parameters.stage_order == PREFILL_FIRST,
            allow_decode_only=parameters.allow_decode_only,
            fields=parameters.profile_fields,
        )
        super().__init__(stages, context, DISAGG_DECISIONS)

    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        """Tell the decode pod's sidecar which endpoints were picked for the other stages."""
        write_stage_headers(
            request.headers, prefill=result.stage("prefill"), encode=result.stage("encode")
        )
