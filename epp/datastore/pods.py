"""From a pod to its endpoints: one for each target port it serves on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from epp.datastore.inference_pool import InferencePool
from epp.framework.endpoint import Endpoint, EndpointId, EndpointState
from epp.support.addresses import join_host_port, routable_ip

ACTIVE_PORTS = "llm-d.ai/active-ports"
LEGACY_ACTIVE_PORTS = "inference.networking.k8s.io/active-ports"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A model server with an address of its own, wherever it was learnt from."""

    uid: str
    name: str
    namespace: str
    ips: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    ready: bool
    terminating: bool = False
    node_address: str = ""
    """IP of the node it runs on."""
    hostname: str = ""
    """`spec.hostname`."""
    fixed_port: int | None = None
    """The one port it serves on, whatever the pool's target ports are."""
    declared_ports: frozenset[int] = frozenset()
    """Ports that its containers declare, which need not be all they listen on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """The endpoints of a pod, by rank, or the reason why it has none."""

    endpoints: tuple[Endpoint, ...] = ()
    reason: str = ""


def expand_endpoints(
    pod: Pod, pool: InferencePool, states: Callable[[EndpointId], EndpointState]
) -> Expansion:
    """The endpoints of `pod`; `states` knows what is known of them so far.

    Terminating pods leave at once: what is in flight there goes on, nothing new is sent.
    Labels are not compared with the pool's selector; whoever brings pods has selected them.
    """
    if pod.terminating:
        return Expansion(reason="terminating")
    if not pod.ready:
        return Expansion(reason="not ready")
    ip = next(filter(None, map(routable_ip, pod.ips)), None)
    if ip is None:
        return Expansion(reason="no usable IP address")
    ranks = _ranks(pod, pool)
    if not ranks:
        return Expansion(reason=_why_no_rank(pod, pool))
    return Expansion(
        endpoints=tuple(_endpoint(pod, ip, rank, port, states) for rank, port in ranks)
    )


def declares_other_ports(pod: Pod, pool: InferencePool) -> bool:
    """Whether the containers declare ports and none of them is a target port: a hint, no proof."""
    return bool(pod.declared_ports) and pod.declared_ports.isdisjoint(pool.target_ports)


def _endpoint(
    pod: Pod, ip: str, rank: int, port: int, states: Callable[[EndpointId], EndpointState]
) -> Endpoint:
    endpoint_id = EndpointId(pod.uid, port)
    return Endpoint(
        id=endpoint_id,
        address=join_host_port(ip, port),
        ip=ip,
        port=port,
        name=pod.name if pod.fixed_port is not None else f"{pod.name}-rank-{rank}",
        namespace=pod.namespace,
        pod_name=pod.name,
        rank=rank,
        labels=pod.labels,
        node_address=pod.node_address,
        hostname=pod.hostname,
        state=states(endpoint_id),
    )


def _ranks(pod: Pod, pool: InferencePool) -> list[tuple[int, int]]:
    """Rank and port of what serves. The rank is the index in the pool, active or not."""
    if pod.fixed_port is not None:
        return [(0, pod.fixed_port)]
    ranks = list(enumerate(pool.target_ports))
    text = _active_ports(pod)
    if text is None:
        return ranks
    active = {part.strip() for part in text.split(",")}
    return [(rank, port) for rank, port in ranks if str(port) in active]


def _active_ports(pod: Pod) -> str | None:
    return pod.annotations.get(ACTIVE_PORTS, pod.annotations.get(LEGACY_ACTIVE_PORTS))


def _why_no_rank(pod: Pod, pool: InferencePool) -> str:
    text = _active_ports(pod)
    if text is None:
        return "the pool has no target ports"
    ports = ", ".join(map(str, pool.target_ports))
    return f"annotation active-ports {text[:100]!r} names none of the target ports {ports}"
