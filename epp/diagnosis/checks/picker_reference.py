"""Is there the Service that the pool names, is its port right, and is there a picker behind it?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from http import HTTPStatus

import msgspec

from epp.app.options import ServeOptions
from epp.diagnosis.doctor_case import Case, PickerReference
from epp.diagnosis.doctor_findings import Finding, fault, listing, ok, skipped, warning
from epp.diagnosis.kube_asking import ask
from epp.diagnosis.service_protocol import misleading
from epp.kubernetes.answers import KubeStatusError

PICKER_REFERENCE = "picker-reference"


class _ServicePort(msgspec.Struct, frozen=True, rename="camel"):
    port: int
    name: str = ""
    app_protocol: str | None = None
    target_port: int | str = 0


class _ServiceSpec(msgspec.Struct, frozen=True, rename="camel"):
    type: str = "ClusterIP"
    selector: dict[str, str] | None = None
    ports: list[_ServicePort] | None = None


class _Service(msgspec.Struct, frozen=True):
    spec: _ServiceSpec


class _Conditions(msgspec.Struct, frozen=True):
    ready: bool | None = None


class _SliceEndpoint(msgspec.Struct, frozen=True):
    addresses: list[str] = []
    conditions: _Conditions = _Conditions()


class _SlicePort(msgspec.Struct, frozen=True):
    name: str | None = None
    port: int | None = None


class _Slice(msgspec.Struct, frozen=True):
    endpoints: list[_SliceEndpoint] | None = None
    ports: list[_SlicePort] | None = None


class _Slices(msgspec.Struct, frozen=True):
    items: list[_Slice] = []


async def look_at_picker_reference(case: Case) -> Iterable[Finding]:
    """The Service of the `endpointPickerRef`, its port, and who is ready behind it."""
    reference = case.reference
    if case.client is None:
        return [skipped(PICKER_REFERENCE, case.why_no_cluster)]
    if reference is None:
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
    port = next(each for each in service.spec.ports or () if each.port == reference.port)
    slices = await _slices(case, reference)
    misled = _target(case.options, port, slices, name)
    return [
        _replicas(slices, service.spec, reference, name),
        *([misled] if misled else _protocol(port, name, is_tls=case.options.secure_serving)),
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


def _target(
    options: ServeOptions, port: _ServicePort, slices: _Slices | None, name: str
) -> Finding | None:
    """Nothing, unless gateways would talk ext_proc to a port that speaks something else."""
    others = {options.metrics_port: "metrics", options.grpc_health_port: "health"}
    target = _target_port(port, slices)
    if target == options.grpc_port or target not in others:
        return None
    return fault(
        PICKER_REFERENCE,
        f"{name} port {port.port} leads to the picker's port {target}, which is that of"
        f" {others[target]}; ext_proc is on {options.grpc_port}",
        "correct spec.endpointPickerRef.port.number of the pool, or targetPort of the Service",
    )


def _target_port(port: _ServicePort, slices: _Slices | None) -> int:
    """A port may have a name, which only the slices tell the number of."""
    for part in slices.items if slices is not None else ():
        for each in part.ports or ():
            if each.port is not None and (each.name or "") == port.name:
                return each.port
    return (port.target_port if isinstance(port.target_port, int) else 0) or port.port


def _protocol(port: _ServicePort, name: str, *, is_tls: bool) -> Iterator[Finding]:
    problem = misleading(port.app_protocol, port.name, is_tls=is_tls)
    if problem is not None:
        text = f"{name} port {port.port} {problem.said}"
        yield warning(PICKER_REFERENCE, text, problem.advice)


async def _slices(case: Case, reference: PickerReference) -> _Slices | None:
    assert case.client is not None
    path = f"/apis/discovery.k8s.io/v1/namespaces/{case.namespace}/endpointslices"
    query = {"labelSelector": f"kubernetes.io/service-name={reference.name}"}
    try:
        return await ask(case.client, "GET", path, _Slices, query=query)
    except KubeStatusError:
        return None  # not for us to see


def _replicas(
    slices: _Slices | None, spec: _ServiceSpec, reference: PickerReference, name: str
) -> Finding:
    if slices is None:
        return ok(PICKER_REFERENCE, f"{name} has port {reference.port}")
    found = [each for part in slices.items for each in part.endpoints or ()]
    if not found:
        labels = ",".join(f"{key}={value}" for key, value in sorted((spec.selector or {}).items()))
        return fault(
            PICKER_REFERENCE,
            f"{name} leads to no pod: its selector is {labels or 'empty'}",
            "is a picker running, with these labels?",
        )
    ready = sum(each.conditions.ready is not False for each in found)
    if not ready:
        return fault(
            PICKER_REFERENCE,
            f"{name} leads to no picker that is ready; not ready: {len(found)}",
            "`epp pool show` in one of them says what it waits for",
        )
    return ok(PICKER_REFERENCE, f"{name} port {reference.port}, pickers ready: {ready}")


def _may_not_see(name: str) -> Finding:
    return skipped(
        PICKER_REFERENCE,
        f"no right to see {name}, which the picker itself does not need",
        "run it with your own --kubeconfig to have it looked at",
    )
