"""May the picker do at the API server what it has to?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from typing import Any

import msgspec

from epp.app.options import ServeOptions
from epp.datastore.inference_objective import GROUPS as OBJECTIVE_GROUPS
from epp.datastore.inference_pool import GROUP
from epp.diagnosis.doctor_case import Case
from epp.diagnosis.doctor_findings import Finding, fault, listing, ok, skipped, warning
from epp.diagnosis.kube_asking import ask
from epp.kubernetes.answers import KubeStatusError
from epp.kubernetes.client import KubeClient
from epp.kubernetes.leader_election import lease_name

PERMISSIONS = "permissions"
_API = "/apis/authorization.k8s.io/v1"
_FOLLOWING = ("list", "watch")
_NO_PRIORITY = "all requests have priority 0"
_NO_EVENTS = "no Events are written in spite of --emit-events"
_NO_SCRAPES = "scrapes are answered with 503 unless it runs with --metrics-endpoint-auth=false"


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """Something the picker does."""

    group: str
    resource: str
    verb: str
    name: str = ""
    """Of the one object it is about; empty: all of them."""
    is_cluster_wide: bool = False
    without: str = ""
    """What happens without it, where that is no fault."""


class _ReviewStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class _Review(msgspec.Struct, frozen=True):
    status: _ReviewStatus = _ReviewStatus()


async def look_at_permissions(case: Case) -> Iterable[Finding]:
    """Each right the picker needs with these flags."""
    if case.client is None:
        return [skipped(PERMISSIONS, case.why_no_cluster)]
    rights = list(needed_rights(case))
    try:
        granted = [await _is_granted(case, case.client, right) for right in rights]
    except KubeStatusError as error:
        return [skipped(PERMISSIONS, f"rights can't be asked for: {error}")]
    missing = [right for right, is_granted in zip(rights, granted, strict=True) if not is_granted]
    return [*_missing(missing, _who(case))] or [ok(PERMISSIONS, f"all granted to {_who(case)}")]


def needed_rights(case: Case) -> Iterator[Right]:
    """What a picker with these flags does at the API server."""
    for verb in _FOLLOWING:
        yield Right(group="", resource="pods", verb=verb)
    if pool := case.options.pool.name:
        for verb in _FOLLOWING:
            yield Right(group=GROUP, resource="inferencepools", verb=verb, name=pool)
        for group, verb in product(OBJECTIVE_GROUPS, _FOLLOWING):
            yield Right(
                group=group, resource="inferenceobjectives", verb=verb, without=_NO_PRIORITY
            )
    if case.options.elects_leader:
        lease = lease_name(case.namespace, case.options.pool.name_in_cluster)
        yield Right(group="coordination.k8s.io", resource="leases", verb="create")
        for verb in ("get", "update"):
            yield Right(group="coordination.k8s.io", resource="leases", verb=verb, name=lease)
    yield from _rights_on_request(case.options)


def _rights_on_request(options: ServeOptions) -> Iterator[Right]:
    if options.emit_events:
        for verb in ("create", "patch"):
            yield Right(group="", resource="events", verb=verb, without=_NO_EVENTS)
    if options.guards_metrics:
        for group, resource in (
            ("authentication.k8s.io", "tokenreviews"),
            ("authorization.k8s.io", "subjectaccessreviews"),
        ):
            yield Right(
                group=group,
                resource=resource,
                verb="create",
                is_cluster_wide=True,
                without="" if options.metrics_endpoint_auth else _NO_SCRAPES,
            )


async def _is_granted(case: Case, client: KubeClient, right: Right) -> bool:
    attributes = {
        "group": right.group,
        "resource": right.resource,
        "verb": right.verb,
        "name": right.name,
        "namespace": "" if right.is_cluster_wide else case.namespace,
    }
    spec: dict[str, Any] = {"resourceAttributes": attributes}
    kind = "SelfSubjectAccessReview"
    if account := case.asked.service_account:
        kind = "SubjectAccessReview"
        spec["user"] = f"system:serviceaccount:{case.namespace}:{account}"
        spec["groups"] = [
            "system:serviceaccounts",
            f"system:serviceaccounts:{case.namespace}",
            "system:authenticated",
        ]
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    path = f"{_API}/{kind.lower()}s"
    return (await ask(client, "POST", path, _Review, body=review)).status.allowed


def _missing(missing: Sequence[Right], who: str) -> Iterator[Finding]:
    for resource in dict.fromkeys(right.resource for right in missing):
        rights = [right for right in missing if right.resource == resource]
        verbs = listing(dict.fromkeys(right.verb for right in rights))
        text = f"{who} may not {verbs} {resource}"
        kind = "ClusterRole" if rights[0].is_cluster_wide else "Role"
        granting = "; ".join(rules(rights))
        if without := rights[0].without:
            yield warning(PERMISSIONS, f"{text}: {without}", f"{kind}: {granting}")
        else:
            advice = f"it needs a {kind}Binding to a {kind} with {granting}"
            if rights[0].is_cluster_wide:
                advice += "; or let everybody scrape: --metrics-endpoint-auth=false"
            yield fault(PERMISSIONS, text, advice)


def rules(rights: Iterable[Right]) -> Iterator[str]:
    """The rules of a Role that grant them."""
    for key, same in groupby(rights, lambda right: (right.group, right.resource, right.name)):
        group, resource, name = key
        verbs = ", ".join(right.verb for right in same)
        names = f", resourceNames: [{name}]" if name else ""
        quoted = group or '""'
        yield f"apiGroups: [{quoted}], resources: [{resource}]{names}, verbs: [{verbs}]"


def _who(case: Case) -> str:
    if case.asked.service_account:
        return f"ServiceAccount {case.namespace}/{case.asked.service_account}"
    if case.is_in_pod:
        return "this pod's ServiceAccount"
    return "the kubeconfig's user (--service-account asks for the picker)"
