"""Spans of disaggregated serving: which stage runs next, and what the sidecar is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from epp.framework.scheduling_results import SchedulingResult
    from epp.framework.trail import TimedStep, Trail
    from epp.tracing.span import Attributes, AttributeValue, SpanList


def add_stages(
    spans: SpanList, parent: int, trail: Trail, result: SchedulingResult, request: Attributes
) -> None:
    """The calls of a profile handler that knows stages, and of those that act on the decision."""
    if not result.roles:
        return
    steps = list(trail.steps)
    picks = _at("ProfilePicker", steps)
    ends = [pick.started_at for pick in picks[1:]] + [float("inf")]
    for pick, end in zip(picks, ends, strict=True):
        decision = _decision(result, pick.started_at, end)
        spans.add(
            "pick_disagg_profile",
            parent,
            pick.started_at,
            pick.started_at + pick.seconds,
            {"llm_d.epp.profile_handler.decision": decision, **request},
        )
    writers = _at("PreRequest", steps)
    if writers:
        last = writers[-1]
        spans.add(
            "prepare_disaggregation",
            parent,
            writers[0].started_at,
            last.started_at + last.seconds,
            {**_prepared(result), **request},
        )


def _at(extension_point: str, steps: Sequence[TimedStep]) -> Sequence[TimedStep]:
    return [step for step in steps if step.name.extension_point == extension_point]


def _decision(result: SchedulingResult, start: float, end: float) -> str:
    """What was decided at `start`, which was asked again at `end`."""
    for role, name in result.roles.items():
        profile = result.profiles.get(name)
        if profile is not None and start <= (profile.started_at or 0.0) < end:
            return f"run_{role}"
    # As the metric of decisions has it.
    extra = [role for role in ("encode", "prefill") if result.stage(role) is not None]
    return f"complete_{'-'.join((*extra, 'decode')) if extra else 'decode-only'}"


def _prepared(result: SchedulingResult) -> Attributes:
    prefill, encode = result.stage("prefill"), result.stage("encode")
    attributes: dict[str, AttributeValue] = {
        "llm_d.epp.pd.disaggregation_used": prefill is not None,
        "llm_d.epp.encode.disaggregation_used": encode is not None,
    }
    if prefill is None:
        attributes["llm_d.epp.pd.reason"] = "no_prefill_profile_result"
    else:
        endpoint = prefill.endpoints[0]
        attributes["llm_d.epp.pd.prefill_pod_address"] = endpoint.ip
        attributes["llm_d.epp.pd.prefill_pod_port"] = str(endpoint.port)
    if encode is None:
        attributes["llm_d.epp.encode.reason"] = "no_encode_profile_result"
    else:
        addresses = [endpoint.address for endpoint in encode.endpoints]
        attributes["llm_d.epp.encode.endpoints"] = ",".join(addresses)
    return attributes
