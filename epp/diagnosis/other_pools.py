"""Other InferencePools beside the one under examination that get in its way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from epp.datastore.inference_pool import GROUP, InferencePool
from epp.diagnosis.doctor_case import Case, PickerReference
from epp.diagnosis.doctor_findings import Finding, fault, listing, warning
from epp.diagnosis.kube_asking import ask
from epp.kubernetes.answers import KubeStatusError

_MOST = "500"


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""


class _Selector(msgspec.Struct, frozen=True, rename="camel"):
    match_labels: dict[str, str] | None = None


class _Port(msgspec.Struct, frozen=True):
    number: int | None = None


class _Reference(msgspec.Struct, frozen=True):
    name: str = ""
    kind: str = ""
    port: _Port | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    selector: _Selector | None = None
    endpoint_picker_ref: _Reference | None = None


class _Pool(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()


class _Pools(msgspec.Struct, frozen=True):
    items: list[_Pool] = []


async def look_at_other_pools(case: Case, pool: InferencePool, check: str) -> list[Finding]:
    """Those that name the same picker, and those that select the same pods."""
    assert case.client is not None
    path = f"/apis/{GROUP}/v1/namespaces/{pool.namespace}/inferencepools"
    try:
        found = await ask(case.client, "GET", path, _Pools, query={"limit": _MOST})
    except KubeStatusError:
        return []  # the picker's own right is to its pool alone
    others = [each for each in found.items if each.metadata.name != pool.name]
    return [
        *_same_picker(others, case.reference, pool, check),
        *_same_pods(others, pool, check),
    ]


def _same_picker(
    others: list[_Pool], reference: PickerReference | None, pool: InferencePool, check: str
) -> Iterator[Finding]:
    names = [
        each.metadata.name
        for each in others
        if reference is not None and _reference(each.spec) == reference
    ]
    if names:
        yield fault(
            check,
            f"{listing(names)} of {pool.namespace} {'name' if len(names) > 1 else 'names'} the same"
            f" picker, which picks for {pool.name} alone",
            "give each pool a picker and a Service of its own: requests for the others would go"
            f" to endpoints of {pool.name}",
        )


def _same_pods(others: list[_Pool], pool: InferencePool, check: str) -> Iterator[Finding]:
    names = [
        each.metadata.name for each in others if _overlap(_labels(each.spec), pool.match_labels)
    ]
    if names:
        yield warning(
            check,
            f"{listing(names)} of {pool.namespace} {'select' if len(names) > 1 else 'selects'} the"
            " same pods",
            "is that meant? Each picker knows only the requests that it sent there itself",
        )


def _overlap(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether all pods of the one are pods of the other as well, or the other way round."""
    return bool(one and other) and (one.items() <= other.items() or other.items() <= one.items())


def _labels(spec: _Spec) -> Mapping[str, str]:
    return (spec.selector.match_labels if spec.selector else None) or {}


def _reference(spec: _Spec) -> PickerReference | None:
    found = spec.endpoint_picker_ref
    if found is None:
        return None
    port = found.port.number if found.port else None
    return PickerReference(kind=found.kind or "Service", name=found.name, port=port)
