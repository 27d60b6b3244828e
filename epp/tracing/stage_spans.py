"""Spans of disaggregated serving: which stage ran next, and what the sidecar is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epp.framework.scheduling import SchedulingResult
    from epp.tracing.span import Attributes, AttributeValue, SpanList


def add_stages(
    spans: SpanList,
    parent: int,
    result: SchedulingResult,
    started_at: float,
    ended_at: float,
    request: Attributes,
) -> None:
    """What the profile handler decided between profiles, and what came of it.

    Its times are those between the profiles: nothing else happens there.
    """
    if not result.roles:
        return  # a handler without stages
    role_of = {name: role for role, name in result.roles.items()}
    for name, profile in result.profiles.items():
        if profile.started_at is None:
            return
        decision = f"run_{role_of.get(name, name)}"
        _add_pick(spans, parent, decision, started_at, profile.started_at, request)
        started_at = profile.started_at + profile.seconds
    _add_pick(spans, parent, f"complete_{_outcome(result)}", started_at, started_at, request)
    spans.add(
        "prepare_disaggregation", parent, started_at, ended_at, {**_prepared(result), **request}
    )


def _add_pick(
    spans: SpanList,
    parent: int,
    decision: str,
    started_at: float,
    ended_at: float,
    request: Attributes,
) -> None:
    attributes = {"llm_d.epp.profile_handler.decision": decision, **request}
    spans.add("pick_disagg_profile", parent, started_at, ended_at, attributes)


def _outcome(result: SchedulingResult) -> str:
    """As the metric of decisions has it."""
    extra = [role for role in ("encode", "prefill") if result.stage(role) is not None]
    return "-".join((*extra, "decode")) if extra else "decode-only"


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
