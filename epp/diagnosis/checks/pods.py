"""Which pods belong to the pool, and why others don't?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from epp.datastore.inference_pool import InferencePool
from epp.datastore.pods import Pod, declares_other_ports, expand_endpoints
from epp.diagnosis.doctor_case import Case
from epp.diagnosis.doctor_findings import Finding, fault, listing, ok, skipped, warning
from epp.diagnosis.kube_asking import remedy
from epp.framework.endpoint import Endpoint, EndpointState
from epp.kubernetes import objects
from epp.kubernetes.answers import KubeStatusError
from epp.kubernetes.client import KubeClient
from epp.kubernetes.pool_reading import list_objects
from epp.kubernetes.pool_source import equality_selector

PODS = "pods"
_MOST_OTHERS = 500


async def look_at_pods(case: Case) -> Iterable[Finding]:
    """The endpoints, pods that are selected and have none, and pods that nearly are selected."""
    choice = case.options.pool
    if choice.file is not None:
        return [skipped(PODS, "endpoints come from a file")]
    if not choice.is_in_cluster:
        return [skipped(PODS, case.why_no_cluster)]
    if case.client is None or case.pool is None:
        return [skipped(PODS, "no pool is known whose pods they could be")]
    selector = choice.selector or equality_selector(case.pool.match_labels)
    try:
        seen = await list_objects(case.client, objects.pods(case.namespace, selector))
    except KubeStatusError as error:
        rule = 'apiGroups: [""], resources: [pods], verbs: [list, watch]'
        return [fault(PODS, f"pods can't be listed: {error}", remedy(error, rule))]
    if not seen:
        text = f"no pod of {case.namespace} has {selector}"
        return [fault(PODS, text, await _nearest(case, case.client, selector))]
    return _selected(case, seen)


def _selected(case: Case, seen: Sequence[Pod]) -> Iterable[Finding]:
    assert case.pool is not None
    endpoints: list[Endpoint] = []
    reasons: dict[str, list[str]] = {}
    for each in seen:
        expansion = expand_endpoints(each, case.pool, lambda _: EndpointState())
        endpoints += expansion.endpoints
        if expansion.reason:
            reasons.setdefault(expansion.reason, []).append(_name_of(each))
    case.endpoints = tuple(endpoints)
    findings = [_without(reason, names, bool(endpoints)) for reason, names in reasons.items()]
    findings += _wrong_ports(case.pool, seen)
    if endpoints:
        pods = len(seen) - sum(map(len, reasons.values()))
        told = f"pods with endpoints: {pods} of {len(seen)}; endpoints: {len(endpoints)}"
        findings.insert(0, ok(PODS, told))
    return findings


_ADVICE = {
    "not ready": "see `kubectl describe pod`: is the readiness probe passed?",
    "terminating": "nothing, if it is being replaced",
    "no usable IP address": "see `kubectl describe pod`: does its network work?",
}


def _name_of(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"


def _without(reason: str, names: Sequence[str], are_others: bool) -> Finding:
    advice = _ADVICE.get(reason, "correct the annotation, or the pool's targetPorts")
    text = f"no endpoint, {reason}: {listing(names)}"
    if not are_others:
        return fault(PODS, text, advice)
    if reason == "terminating":
        return ok(PODS, text)
    return warning(PODS, text, advice)


def _wrong_ports(pool: InferencePool, seen: Iterable[Pod]) -> Iterable[Finding]:
    """Declaring a port means nothing to the kernel, but others than the pool's are a hint."""
    odd = [each for each in seen if declares_other_ports(each, pool)]
    if not odd:
        return
    declared = listing(map(str, sorted(set().union(*(each.declared_ports for each in odd)))))
    yield warning(
        PODS,
        f"containers declare ports {declared}, none of them a target port"
        f" ({listing(map(str, pool.target_ports))}): {listing(map(_name_of, odd))}",
        "is spec.targetPorts of the pool the port that the model server listens on?",
    )


async def _nearest(case: Case, client: KubeClient, selector: str) -> str:
    """What comes nearest to being selected."""
    if there := await _elsewhere(client, selector, case.namespace):
        return (
            f"pods of other namespaces have these labels ({there}): pool, pods and picker share"
            " one namespace"
        )
    try:
        others = await list_objects(client, objects.pods(case.namespace, ""), most=_MOST_OTHERS)
    except KubeStatusError:
        others = []
    if not others:
        return f"there is no pod at all in {case.namespace}: is --pool-namespace right?"
    labels = case.pool.match_labels if case.pool is not None else {}
    if not labels:
        return "compare the selector with `kubectl get pods --show-labels`"
    ranked = sorted(others, key=lambda each: len(_differences(labels, each)))
    shown = (f"{_name_of(each)} {'; '.join(_differences(labels, each))}" for each in ranked)
    return f"correct spec.selector of the pool, or the labels: {listing(shown, most=3)}"


def _differences(labels: Mapping[str, str], pod: Pod) -> list[str]:
    return [
        f"has {key}={pod.labels[key]}, not {key}={value}"
        if key in pod.labels
        else f"has no {key}={value}"
        for key, value in sorted(labels.items())
        if pod.labels.get(key) != value
    ]


async def _elsewhere(client: KubeClient, selector: str, namespace: str) -> str:
    try:
        found = await list_objects(client, objects.pods("", selector), most=_MOST_OTHERS)
    except KubeStatusError:
        return ""  # a picker may see its own namespace only
    counts = Counter(each.namespace for each in found if each.namespace != namespace)
    return listing(f"{name}: {count}" for name, count in sorted(counts.items()))
