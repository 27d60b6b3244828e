"""The examination as a whole: which checks there are, and in which order."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial

from epp.app.options import ServeOptions
from epp.diagnosis import (
    checks_cluster,
    checks_config,
    checks_endpoints,
    checks_envoy,
    checks_limits,
    checks_permissions,
    checks_picker,
    checks_picker_reference,
    checks_pods,
    checks_pool,
    checks_port,
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
            (checks_cluster.CLUSTER, checks_cluster.look_at_cluster),
            (checks_pool.POOL, checks_pool.look_at_pool),
            (
                checks_picker_reference.PICKER_REFERENCE,
                checks_picker_reference.look_at_picker_reference,
            ),
            (checks_permissions.PERMISSIONS, checks_permissions.look_at_permissions),
            (checks_pods.PODS, checks_pods.look_at_pods),
        ),
        ((checks_config.CONFIG, checks_config.look_at_config),),
        ((checks_limits.LIMITS, checks_limits.look_at_limits),),
    ),
    (
        (
            (checks_endpoints.PORTS, checks_endpoints.look_at_ports),
            (checks_endpoints.METRICS, checks_endpoints.look_at_metrics),
        ),
        (
            (checks_picker.ADMIN, checks_picker.look_at_admin),
            (checks_port.PORT, checks_port.look_at_picker_port),
            (checks_picker.HEALTH, checks_picker.look_at_health),
            (checks_picker.EXCHANGE, checks_picker.look_at_exchange),
        ),
    ),
    (((checks_envoy.GATEWAY, checks_envoy.look_at_gateway),),),
)

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
                *([Check(name, partial(look, case)) for name, look in chain] for chain in chains)
            )
    finally:
        if case.client is not None:
            await case.client.close()
    return findings
