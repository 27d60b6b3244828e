"""Is there a pool, is it valid, and does it name a picker that exists?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from epp.datastore.datastore import Datastore
from epp.datastore.inference_pool import (
    GROUP,
    KIND,
    OLD_GROUP,
    InferencePool,
    parse_inference_pool,
    unknown_pool_fields,
)
from epp.diagnosis.doctor_case import Case, PickerReference
from epp.diagnosis.doctor_findings import Finding, fault, listing, ok, skipped, warning
from epp.diagnosis.kube_asking import remedy
from epp.diagnosis.other_pools import look_at_other_pools
from epp.diagnosis.running_pool import (
    NO_PICKER,
    UNANSWERED,
    endpoints_of,
    pool_of,
    pool_page,
)
from epp.discovery.pool_file import parse_pool_file, read_content
from epp.framework.errors import ConfigError
from epp.kubernetes.answers import KubeStatusError
from epp.kubernetes.envelopes import Metadata, decode_metadata
from epp.kubernetes.pool_reading import list_objects, pool_document
from epp.kubernetes.pool_source import equality_selector
from epp.kubernetes.resource import KubeObject, Resource

POOL = "pool"
_MOST_LISTED = 500


async def look_at_pool(case: Case) -> Iterable[Finding]:
    """The pool: found, valid, and what it says."""
    choice = case.options.pool
    if choice.file is not None:
        return _pool_file(case)
    if choice.selector:
        case.pool = InferencePool(
            name=choice.name_in_cluster,
            namespace=choice.namespace,
            target_ports=choice.target_ports,
        )
        return [ok(POOL, f"pods with {choice.selector} in {choice.namespace}, without {KIND}")]
    if not choice.name:
        return [await _pool_of_picker(case)]
    if case.client is None:
        return [skipped(POOL, case.why_no_cluster)]
    return await _pool_of_cluster(case, case.client.server)


async def _pool_of_picker(case: Case) -> Finding:
    try:
        view = await pool_page(case.admin) if case.admin is not None else None
    except (*UNANSWERED, *NO_PICKER):
        view = None
    if view is None:
        text = "no pool is named: nothing of pool and endpoints is checked"
        return warning(POOL, text, "--pool-name, --endpoint-selector or --pool-file")
    case.pool, case.endpoints = pool_of(view), endpoints_of(view)
    told = _summary(case.pool) if case.pool is not None else "none yet"
    return ok(POOL, f"none is named, so that of the picker at {case.admin}: {told}")


async def _pool_of_cluster(case: Case, server: str) -> Iterable[Finding]:
    assert case.client is not None
    choice = case.options.pool
    name = f"{choice.namespace}/{choice.name}"
    try:
        document = await pool_document(case.client, choice.name, choice.namespace)
    except ConfigError as error:
        return [fault(POOL, str(error), await _where_else(case))]
    except KubeStatusError as error:
        rule = f"apiGroups: [{GROUP}], resources: [inferencepools], verbs: [list, watch]"
        return [fault(POOL, f"{name} can't be read: {error}", remedy(error, rule))]
    case.reference = _reference(document)
    try:
        pool = parse_inference_pool(document, default_namespace=choice.namespace)
        equality_selector(pool.match_labels)
    except ConfigError as error:
        return [fault(POOL, f"{name}: {error}", "correct these fields of the pool")]
    case.pool = pool
    return [
        _told(pool, document),
        *_unknown(document),
        *_overruled(case),
        *await look_at_other_pools(case, pool, POOL),
    ]


def _pool_file(case: Case) -> Iterable[Finding]:
    choice = case.options.pool
    assert choice.file is not None
    try:
        found = parse_pool_file(read_content(choice.file), default_namespace=choice.namespace)
    except ConfigError as error:
        return [fault(POOL, f"{choice.file}: {error}", "correct the file")]
    case.pool = found.pool
    datastore = Datastore()
    with datastore.batch():
        datastore.set_pool(found.pool)
        datastore.set_pods(found.pods)
    case.endpoints = datastore.snapshot().endpoints
    findings = [ok(POOL, f"{choice.file}: {_summary(found.pool)}"), *_overruled(case)]
    findings += [warning(POOL, line, "correct the entry; it is left out") for line in found.skipped]
    findings += [warning(POOL, line, "is that meant?") for line in found.warnings]
    if not case.endpoints:
        findings.append(fault(POOL, "the file lists no endpoint", "add some below `endpoints:`"))
    return findings


def _told(pool: InferencePool, document: Mapping[str, Any]) -> Finding:
    if not document["spec"].get("endpointPickerRef"):
        return warning(
            POOL,
            f"{_summary(pool)}; no endpointPickerRef",
            "name the picker's Service there: without it no gateway asks any picker",
        )
    return ok(POOL, _summary(pool))


def _summary(pool: InferencePool) -> str:
    labels = ",".join(f"{key}={value}" for key, value in sorted(pool.match_labels.items()))
    ports = ", ".join(map(str, pool.target_ports)) or "those of each endpoint"
    mode = f", {pool.failure_mode}" if pool.failure_mode else ""
    return f"{pool.namespace}/{pool.name}: selector {labels or 'none'}, target ports {ports}{mode}"


def _unknown(document: Mapping[str, Any]) -> Iterable[Finding]:
    return [warning(POOL, line, "correct or remove it") for line in unknown_pool_fields(document)]


def _overruled(case: Case) -> Iterable[Finding]:
    forced, own = case.options.forced_failure_mode, case.pool and case.pool.failure_mode
    if forced is None or own is None or forced is own:
        return []
    return [
        warning(
            POOL,
            f"the pool says {own}, which gateways go by; --failure-mode={forced} is for the"
            " picker alone",
            "leave the flag out, or make the pool say the same",
        )
    ]


def _reference(document: Mapping[str, Any]) -> PickerReference | None:
    spec = document.get("spec")
    reference = spec.get("endpointPickerRef") if isinstance(spec, Mapping) else None
    if not isinstance(reference, Mapping) or not isinstance(reference.get("name"), str):
        return None
    port = reference.get("port")
    number = port.get("number") if isinstance(port, Mapping) else None
    return PickerReference(
        kind=str(reference.get("kind") or "Service"),
        name=reference["name"],
        port=number if isinstance(number, int) else None,
    )


async def _where_else(case: Case) -> str:
    """Pools there are: most often one of them is meant."""
    for group in (GROUP, OLD_GROUP):
        version = "v1" if group == GROUP else "v1alpha2"
        for namespace in (case.namespace, ""):
            names = await _names(case, group, version, namespace)
            if names and group == GROUP:
                return f"there is {listing(names)}: compare --pool-name and --pool-namespace"
            if names:
                return f"there is {listing(names)} of the group before v1; apply it anew as v1"
    return (
        "create it, after the definition if the cluster has none: kubectl apply -f config/crd; then"
        " `kubectl get inferencepools.inference.networking.k8s.io -A` lists what there is"
    )


async def _names(case: Case, group: str, version: str, namespace: str) -> list[str]:
    assert case.client is not None
    resource = Resource(
        name="inferencepools", group=group, version=version, namespace=namespace, decode=_decode
    )
    try:
        found = await list_objects(case.client, resource, most=_MOST_LISTED)
    except KubeStatusError:
        return []  # not served, or not for us to see
    wanted = case.options.pool.name
    return [str(each.key) for each in sorted(found, key=lambda each: each.key.name != wanted)]


def _decode(content: bytes | msgspec.Raw) -> KubeObject[Metadata]:
    metadata = decode_metadata(content)
    return metadata.identify(metadata)
