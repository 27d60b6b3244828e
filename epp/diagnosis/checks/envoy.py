"""Is the gateway set as the picker needs it? Of gateways whose data plane is Envoy."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from epp.diagnosis.checks.envoy_clusters import (
    judge_breakers,
    judge_destination,
    judge_picker_cluster,
    judge_routes,
    reads_only_metadata,
)
from epp.diagnosis.checks.envoy_filter import judge_filter
from epp.diagnosis.doctor_case import Case
from epp.diagnosis.doctor_findings import Finding, fault, skipped
from epp.diagnosis.envoy_dump import EnvoyDump, fetch_dump, read_dump
from epp.diagnosis.envoy_filter import clusters_of, settings_for
from epp.framework.errors import ConfigError

GATEWAY = "gateway"


async def look_at_gateway(case: Case) -> Iterable[Finding]:
    """The settings of the Envoy that was named."""
    try:
        dump = await _dump(case)
    except ConfigError as error:
        advice = "give /config_dump of Envoy's admin port, or a bootstrap; see docs/operations.md"
        return [fault(GATEWAY, str(error), advice)]
    if dump is None:
        text = "no Envoy is named"
        return [skipped(GATEWAY, text, "--envoy-admin or --envoy-config-dump has it looked at")]
    return _judge(case, dump)


async def _dump(case: Case) -> EnvoyDump | None:
    if case.asked.envoy_config_dump is not None:
        return await asyncio.to_thread(read_dump, case.asked.envoy_config_dump)
    if case.asked.envoy_admin is not None:
        return await fetch_dump(case.asked.envoy_admin)
    return None


def _judge(case: Case, dump: EnvoyDump) -> list[Finding]:
    settings = settings_for(dump, case.reference.name if case.reference else "")
    if not settings:
        text = "no ext_proc filter: no picker is ever asked"
        advice = "does an HTTPRoute of this gateway lead to the InferencePool?"
        return [fault(GATEWAY, text, advice)]
    findings: list[Finding] = []
    for each in settings:
        findings += judge_filter(case, each, reads_metadata=reads_only_metadata(dump))
    pickers = clusters_of(dump, settings)
    if not pickers:
        text = f"ext_proc asks the cluster {settings[0].cluster!r}, which does not exist"
        findings.append(fault(GATEWAY, text, "name the cluster of the picker in grpc_service"))
    findings += judge_destination(case, dump)
    findings += judge_breakers(case, pickers, dump)
    for cluster in pickers:
        findings += judge_picker_cluster(case, cluster)
    is_full_duplex = any(each.is_full_duplex for each in settings)
    findings += judge_routes(dump, is_full_duplex=is_full_duplex)
    return list(dict.fromkeys(findings))
