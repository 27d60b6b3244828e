"""The examination as a whole: which checks there are, and in which order."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from epp.app.options import ServeOptions
from epp.diagnosis.checks import (
    cluster,
    config,
    endpoints,
    envoy,
    limits,
    permissions,
    picker,
    picker_reference,
    pods,
    pool,
    port,
)
from epp.diagnosis.doctor_case import Case
from epp.diagnosis.doctor_findings import Finding
from epp.diagnosis.doctor_options import DoctorOptions
from epp.diagnosis.doctor_runner import Check, CheckRunner

MOST_SECONDS = 25.0
"""All checks together; the process is over within half a minute."""

Look = Callable[[Case], Awaitable[Iterable[Finding]]]

# Stages follow one another, their chains run side by side, and a chain's checks one by one.
_STAGES: tuple[tuple[tuple[tuple[str, Look], ...], ...], ...] = (
    (
        (
            (cluster.CLUSTER, cluster.look_at_cluster),
            (pool.POOL, pool.look_at_pool),
            (picker_reference.PICKER_REFERENCE, picker_reference.look_at_picker_reference),
            (permissions.PERMISSIONS, permissions.look_at_permissions),
            (pods.PODS, pods.look_at_pods),
        ),
        ((config.CONFIG, config.look_at_config),),
        ((limits.LIMITS, limits.look_at_limits),),
    ),
    (
        (
            (endpoints.PORTS, endpoints.look_at_ports),
            (endpoints.METRICS, endpoints.look_at_metrics),
        ),
        (
            (picker.ADMIN, picker.look_at_admin),
            (port.PORT, port.look_at_picker_port),
            (picker.HEALTH, picker.look_at_health),
            (picker.EXCHANGE, picker.look_at_exchange),
        ),
    ),
    (((envoy.GATEWAY, envoy.look_at_gateway),),),
)

# Who builds on what a check finds out.
_BUILD_ON: Mapping[str, Collection[str]] = {
    cluster.CLUSTER: (
        pool.POOL,
        picker_reference.PICKER_REFERENCE,
        permissions.PERMISSIONS,
        pods.PODS,
    ),
    pool.POOL: (picker_reference.PICKER_REFERENCE, pods.PODS, port.PORT, envoy.GATEWAY),
    pods.PODS: (endpoints.PORTS,),
    config.CONFIG: (endpoints.METRICS,),
    endpoints.PORTS: (endpoints.METRICS,),
    port.PORT: (picker.HEALTH, picker.EXCHANGE, envoy.GATEWAY),
}

CHECK_IDS = tuple(name for stage in _STAGES for chain in stage for name, _ in chain)
"""What --skip takes."""


async def examine(
    options: ServeOptions,
    asked: DoctorOptions,
    *,
    environ: Mapping[str, str] = os.environ,
) -> Sequence[Finding]:
    """Carry out all checks."""
    case = Case(
        options=options,
        asked=asked,
        is_in_pod=bool(environ.get("KUBERNETES_SERVICE_HOST")),
    )
    runner = CheckRunner(seconds=min(asked.timeout, MOST_SECONDS), left_out=asked.skip)
    try:
        findings: list[Finding] = []
        for chains in _STAGES:
            findings += await runner.side_by_side(
                *(
                    [
                        Check(name, partial(look, case), _is_needed(name, asked.skip))
                        for name, look in chain
                    ]
                    for chain in chains
                )
            )
    finally:
        if case.client is not None:
            await case.client.close()
    return findings


def _is_needed(name: str, left_out: Collection[str]) -> bool:
    return any(
        other not in left_out or _is_needed(other, left_out) for other in _BUILD_ON.get(name, ())
    )
