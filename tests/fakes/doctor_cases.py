"""Surroundings for checks of `epp doctor`, and what they found of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from epp.app.options import ServeOptions
from epp.datastore.inference_pool import FailureMode, InferencePool
from epp.diagnosis.doctor_case import Case
from epp.diagnosis.doctor_findings import Finding, Verdict
from epp.diagnosis.doctor_options import DoctorOptions
from epp.standalone.envoy_clusters import Address
from epp.standalone.envoy_config import EnvoySettings, envoy_bootstrap

_ASKED = {field.name for field in dataclasses.fields(DoctorOptions)}


def doctor_case(*, is_in_pod: bool = False, **flags: Any) -> Case:
    """Nothing is known yet but the flags."""
    asked = {name: value for name, value in flags.items() if name in _ASKED}
    options = {name: value for name, value in flags.items() if name not in _ASKED}
    return Case(
        options=ServeOptions(
            **{"pool_file": Path("pool.yaml"), "metrics_endpoint_auth": False, **options}
        ),
        asked=DoctorOptions(**asked),
        is_in_pod=is_in_pod,
    )


def pool_with(failure_mode: FailureMode) -> InferencePool:
    """A pool that is known."""
    return InferencePool(
        name="pool", namespace="models", target_ports=(8000,), failure_mode=failure_mode
    )


def verdicts(findings: Iterable[Finding]) -> dict[str, Verdict]:
    """The worst that each check found."""
    order = (Verdict.SKIPPED, Verdict.OK, Verdict.WARNING, Verdict.FAULT)
    worst: dict[str, Verdict] = {}
    for finding in findings:
        worst[finding.check] = max(
            worst.get(finding.check, Verdict.SKIPPED), finding.verdict, key=order.index
        )
    return worst


def bad(findings: Iterable[Finding]) -> list[Finding]:
    """Faults and warnings."""
    return [each for each in findings if each.verdict in (Verdict.FAULT, Verdict.WARNING)]


def bootstrap(*, fail_open: bool = False, tls: bool = False) -> dict[str, Any]:
    """What `epp standalone` runs Envoy with."""
    settings = EnvoySettings(
        listener=Address("127.0.0.1", 8080),
        pickers=(Address("127.0.0.1", 9002),),
        fail_open=fail_open,
        endpoints=(Address("10.0.0.1", 8000),),
        epp_tls=tls,
    )
    return envoy_bootstrap(settings)


def connection_manager(document: Mapping[str, Any]) -> dict[str, Any]:
    """The HTTP connection manager of a bootstrap, to be changed."""
    (chain,) = document["static_resources"]["listeners"][0]["filter_chains"]
    manager: dict[str, Any] = chain["filters"][0]["typed_config"]
    return manager


def ext_proc(document: Mapping[str, Any]) -> dict[str, Any]:
    """The ext_proc filter of a bootstrap, to be changed."""
    config: dict[str, Any] = connection_manager(document)["http_filters"][0]["typed_config"]
    return config


def cluster(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A cluster of a bootstrap, to be changed."""
    found: list[dict[str, Any]] = document["static_resources"]["clusters"]
    (one,) = [each for each in found if each["name"] == name]
    return one
