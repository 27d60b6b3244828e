"""Is there the Service that the pool names, is its port right, and is there a picker behind it?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from http import HTTPStatus

import msgspec

from epp.diagnosis.doctor_case import Case, PickerReference
from epp.diagnosis.doctor_findings import Finding, fault, listing, ok, skipped, warning
from epp.diagnosis.kube_asking import ask
from epp.diagnosis.service_protocol import misleading
from epp.kubernetes.client import KubeStatusError

PICKER_REFERENCE = "picker-reference"


class _ServicePort(msgspec.Struct, frozen=True, rename="camel"):
    port: int
    name: str = ""
    app_protocol: str | None = None


class _ServiceSpec(msgspec.Struct, frozen=True, rename="camel"):
    type: str = "ClusterIP"
    ports: list[_ServicePort] | None = None


class _Service(msgspec.Struct, frozen=True):
    spec: _ServiceSpec


class _Conditions(msgspec.Struct, frozen=True):
    ready: bool | None = None


class _SliceEndpoint(msgspec.Struct, frozen=True):
    addresses: list[str] = []
    conditions: _Conditions = _Conditions()


class _Slice(msgspec.Struct, frozen=True):
    endpoints: list[_SliceEndpoint] | None = None


class _Slices(msgspec.Struct, frozen=True):
    items: list[_Slice] = []


async def look_at_picker_reference(case: Case) -> Iterable[Finding]:
    """The Service of the `endpointPickerRef`, its port, and who is ready behind it."""
    reference = case.reference
    if case.client is None or reference is None:
        return [skipped(PICKER_REFERENCE, "the pool names no picker, or can't be read")]
    if reference.kind != "Service":
        text = f"the picker is a {reference.kind}, which only its gateway understands"
        return [skipped(PICKER_REFERENCE, text)]
    path = f"/api/v1/namespaces/{case.namespace}/services/{reference.name}"
    name = f"Service {case.namespace}/{reference.name}"
    try:
        service = await ask(case.client, "GET", path, _Service)
    except KubeStatusError as error:
        return [_unseen(error, name)]
    problem = _service(service.spec, reference, name)
    if problem is not None:
        return [problem]
    is_tls = case.options.secure_serving
    return [
        await _replicas(case, reference, name),
        *_protocol(service.spec, reference, name, is_tls=is_tls),
    ]


def _unseen(error: KubeStatusError, name: str) -> Finding:
    if error.status == HTTPStatus.FORBIDDEN:
        return _may_not_see(name)
    if error.status != HTTPStatus.NOT_FOUND:
        return skipped(PICKER_REFERENCE, f"{name} can't be read: {error}")
    text = f"{name}, which the pool names: {error}"
    advice = "create it, or correct spec.endpointPickerRef.name of the pool"
    return fault(PICKER_REFERENCE, text, advice)


def _service(spec: _ServiceSpec, reference: PickerReference, name: str) -> Finding | None:
    if spec.type == "ExternalName":
        text = f"{name} is of type ExternalName, which gateways refuse"
        return fault(PICKER_REFERENCE, text, "make it a headless Service with a selector")
    ports = [port.port for port in spec.ports or ()]
    if reference.port not in ports:
        text = f"{name} has no port {reference.port}; it has {listing(map(str, ports)) or 'none'}"
        advice = "correct spec.endpointPickerRef.port.number of the pool, or the Service"
        return fault(PICKER_REFERENCE, text, advice)
    return None


def _protocol(
    spec: _ServiceSpec, reference: PickerReference, name: str, *, is_tls: bool
) -> Iterator[Finding]:
    for port in spec.ports or ():
        problem = misleading(port.app_protocol, port.name, is_tls=is_tls)
        if port.port == reference.port and problem is not None:
            yield warning(
                PICKER_REFERENCE, f"{name} port {port.port} {problem.said}", problem.advice
            )


async def _replicas(case: Case, reference: PickerReference, name: str) -> Finding:
    assert case.client is not None
    path = f"/apis/discovery.k8s.io/v1/namespaces/{case.namespace}/endpointslices"
    query = {"labelSelector": f"kubernetes.io/service-name={reference.name}"}
    try:
        slices = await ask(case.client, "GET", path, _Slices, query=query)
    except KubeStatusError:
        return ok(PICKER_REFERENCE, f"{name} has port {reference.port}")
    ready = sum(
        each.conditions.ready is not False for part in slices.items for each in part.endpoints or ()
    )
    if not ready:
        return fault(
            PICKER_REFERENCE,
            f"{name} leads to no picker that is ready",
            "does its selector select the picker's pods, and are they ready? `epp pool show` in"
            " one of them says what it waits for",
        )
    return ok(PICKER_REFERENCE, f"{name} port {reference.port}, pickers ready: {ready}")


def _may_not_see(name: str) -> Finding:
    return skipped(
        PICKER_REFERENCE,
        f"no right to see {name}, which the picker itself does not need",
        "run it with your own --kubeconfig to have it looked at",
    )
