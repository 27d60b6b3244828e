"""The kinds that are read: just their fields that matter, others never become Python objects."""

from __future__ import annotations

from typing import Any

import msgspec

from epp.datastore.inference_objective import VERSION as OBJECTIVE_VERSION
from epp.datastore.inference_objective import InferenceObjective
from epp.datastore.inference_pool import GROUP
from epp.datastore.pods import ACTIVE_PORTS, LEGACY_ACTIVE_PORTS, Pod
from epp.kubernetes.envelopes import Metadata, decode_metadata
from epp.kubernetes.resource import KubeObject, Resource


class _PodAnnotations(msgspec.Struct, frozen=True, gc=False):
    active_ports: str | None = msgspec.field(name=ACTIVE_PORTS, default=None)
    legacy_active_ports: str | None = msgspec.field(name=LEGACY_ACTIVE_PORTS, default=None)


class _PodMetadata(Metadata, frozen=True, gc=False, rename="camel"):
    labels: dict[str, str] | None = None
    annotations: _PodAnnotations | None = None


class _Condition(msgspec.Struct, frozen=True, gc=False):
    type: str
    status: str


class _PodIp(msgspec.Struct, frozen=True, gc=False):
    ip: str = ""


class _ContainerPort(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    container_port: int = 0


class _Container(msgspec.Struct, frozen=True, gc=False):
    ports: list[_ContainerPort] | None = None


class _PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    hostname: str = ""
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    """Sidecars that are started first are among them."""

    def declared_ports(self) -> frozenset[int]:
        containers = [*(self.containers or ()), *(self.init_containers or ())]
        return frozenset(port.container_port for each in containers for port in each.ports or ())


class _PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    host_ip: str = msgspec.field(name="hostIP", default="")
    pod_ip: str = msgspec.field(name="podIP", default="")
    pod_ips: list[_PodIp] | None = msgspec.field(name="podIPs", default=None)
    conditions: list[_Condition] | None = None


class _PodObject(msgspec.Struct, frozen=True, gc=False):
    metadata: _PodMetadata
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class _PoolRef(msgspec.Struct, frozen=True, gc=False):
    name: str
    group: str = GROUP


class _ObjectiveSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    pool_ref: _PoolRef
    priority: int | None = None


class _ObjectiveObject(msgspec.Struct, frozen=True, gc=False):
    metadata: Metadata
    spec: _ObjectiveSpec


class PoolDocument(msgspec.Struct, frozen=True, gc=False):
    """An InferencePool, still to be checked."""

    document: dict[str, Any]
    is_terminating: bool


_decode_pod = msgspec.json.Decoder(_PodObject).decode
_decode_objective = msgspec.json.Decoder(_ObjectiveObject).decode
_decode_document = msgspec.json.Decoder(dict[str, Any]).decode


def pods(namespace: str, label_selector: str) -> Resource[Pod]:
    """The pods of a namespace that a selector selects."""
    return Resource(
        name="pods",
        version="v1",
        namespace=namespace,
        label_selector=label_selector,
        decode=decode_pod,
    )


def inference_pools(namespace: str, name: str) -> Resource[PoolDocument]:
    """The one InferencePool of that name; a Role with `resourceNames` allows to ask for it."""
    return Resource(
        name="inferencepools",
        group=GROUP,
        version="v1",
        namespace=namespace,
        field_selector=f"metadata.name={name}",
        decode=decode_pool,
    )


def inference_objectives(namespace: str, group: str) -> Resource[InferenceObjective]:
    """The InferenceObjectives of a namespace, as one of the groups serves them."""
    return Resource(
        name="inferenceobjectives",
        group=group,
        version=OBJECTIVE_VERSION,
        namespace=namespace,
        is_optional=True,
        decode=decode_objective,
    )


def decode_pod(content: bytes | msgspec.Raw) -> KubeObject[Pod]:
    """A pod: ready if its condition Ready says so, terminating once its deletion was asked for."""
    source = _decode_pod(content)
    metadata, status = source.metadata, source.status
    if not metadata.uid:
        # All of that kind would be one pod.
        raise msgspec.ValidationError("Object has no uid - at `$.metadata`")
    ips = tuple(entry.ip for entry in status.pod_ips or () if entry.ip)
    if not ips and status.pod_ip:
        ips = (status.pod_ip,)
    pod = Pod(
        uid=metadata.uid,
        name=metadata.name,
        namespace=metadata.namespace,
        ips=ips,
        labels=metadata.labels or {},
        annotations=_read_annotations(metadata.annotations),
        ready=any(c.type == "Ready" and c.status == "True" for c in status.conditions or ()),
        terminating=metadata.deletion_timestamp is not None,
        node_address=status.host_ip,
        hostname=source.spec.hostname,
        declared_ports=source.spec.declared_ports(),
    )
    return metadata.identify(pod)


def decode_pool(content: bytes | msgspec.Raw) -> KubeObject[PoolDocument]:
    """An InferencePool as it stands; whether it is valid is for its reader to say."""
    metadata = decode_metadata(content)
    document = _decode_document(content)
    # Status and bookkeeping change often and are of no interest.
    document = {
        "apiVersion": document.get("apiVersion"),
        "kind": document.get("kind"),
        "metadata": {"name": metadata.name, "namespace": metadata.namespace},
        "spec": document.get("spec"),
    }
    terminating = metadata.deletion_timestamp is not None
    return metadata.identify(PoolDocument(document=document, is_terminating=terminating))


def decode_objective(content: bytes | msgspec.Raw) -> KubeObject[InferenceObjective]:
    """An InferenceObjective; without a priority it ranks as requests do that name none."""
    source = _decode_objective(content)
    objective = InferenceObjective(
        name=source.metadata.name,
        pool_name=source.spec.pool_ref.name,
        pool_group=source.spec.pool_ref.group,
        priority=source.spec.priority or 0,
    )
    return source.metadata.identify(objective)


def _read_annotations(annotations: _PodAnnotations | None) -> dict[str, str]:
    if annotations is None:
        return {}
    read = {
        ACTIVE_PORTS: annotations.active_ports,
        LEGACY_ACTIVE_PORTS: annotations.legacy_active_ports,
    }
    return {name: text for name, text in read.items() if text is not None}
