"""The current world, and how it is changed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog

from epp.datastore.endpoint_index import EndpointIndex, pool_order
from epp.datastore.inference_pool import InferencePool
from epp.datastore.pods import Expansion, Pod, expand_endpoints
from epp.datastore.snapshot import Change, Snapshot
from epp.framework.endpoint import Endpoint, EndpointId, EndpointState

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class _Member:
    pod: Pod
    endpoints: tuple[Endpoint, ...] = ()
    reason: str = ""
    states: dict[int, EndpointState] = field(default_factory=dict)
    """By port. Kept while the pod is not ready: what was sent to it is still in flight."""


class Datastore:
    """Pool and pods, changed from the event loop by few, read by every request.

    Each change publishes a new snapshot at once, so that a pod that leaves is not picked again;
    `batch` makes several changes one. Only changed pods are expanded.
    """

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._snapshot = Snapshot()
        self._pool: InferencePool | None = None
        self._is_synced = False
        self._synced = asyncio.Event()
        self._members: dict[str, _Member] = {}
        self._index = EndpointIndex()
        self._before: dict[EndpointId, Endpoint | None] = {}
        self._after: dict[EndpointId, Endpoint | None] = {}
        self._open_batches = 0
        self._listeners: list[Callable[[Change], None]] = []
        self.priorities: Mapping[str, int] = {}
        """Of requests, by the name of the InferenceObjective they ask for; replaced as a whole."""

    def snapshot(self) -> Snapshot:
        """The pool as of now; costs nothing."""
        return self._snapshot

    def subscribe(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call `listener` after each change, until the returned function is called.

        It must return quickly, not raise and not change the datastore.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def wait_synced(self) -> None:
        """Return once `mark_synced` was called."""
        await self._synced.wait()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Publish all changes made inside as one. Never await inside."""
        self._open_batches += 1
        try:
            yield
        finally:
            self._open_batches -= 1
            if not self._open_batches:
                self._publish()

    def mark_synced(self) -> None:
        """The source of pods has told everything it knows."""
        with self.batch():
            self._is_synced = True

    def mark_unsynced(self) -> None:
        """The source of pods knows nothing for certain any more: its pool is gone."""
        self._synced.clear()
        with self.batch():
            self._is_synced = False

    def explanations(self) -> list[tuple[Pod, str]]:
        """The pods that have no endpoint, each with the reason."""
        return [(member.pod, member.reason) for member in self._members.values() if member.reason]

    def set_pool(self, pool: InferencePool | None) -> None:
        """Replace the pool; None: it is gone, and with it every endpoint."""
        with self.batch():
            old, self._pool = self._pool, pool
            if old and pool and old.target_ports == pool.target_ports:
                return
            for member in self._members.values():
                self._expand(member)

    def set_pods(self, pods: Iterable[Pod]) -> None:
        """Replace all pods; those that are known keep their state."""
        current = {pod.uid: pod for pod in pods}
        with self.batch():
            for uid in self._members.keys() - current.keys():
                self.delete_pod(uid)
            for pod in current.values():
                self.upsert_pod(pod)

    def upsert_pod(self, pod: Pod) -> None:
        """Add a pod, or replace what is known of it."""
        member = self._members.get(pod.uid)
        if member is None:
            member = self._members[pod.uid] = _Member(pod=pod)
        elif member.pod == pod:
            return
        member.pod = pod
        with self.batch():
            self._expand(member)

    def delete_pod(self, uid: str) -> None:
        """Forget a pod and all state of its endpoints; harmless when it is unknown."""
        member = self._members.pop(uid, None)
        if member is not None:
            with self.batch():
                self._replace(member, ())

    def _expand(self, member: _Member) -> None:
        if self._pool is None:
            member.reason = "there is no pool"
            self._replace(member, ())
            return
        ports = {*self._pool.target_ports, member.pod.fixed_port}
        member.states = {port: state for port, state in member.states.items() if port in ports}

        def states(endpoint_id: EndpointId) -> EndpointState:
            state = member.states.get(endpoint_id.port)
            if state is None:
                state = member.states[endpoint_id.port] = EndpointState(self._now)
            return state

        expansion = expand_endpoints(member.pod, self._pool, states)
        self._explain(member, expansion)
        self._replace(member, expansion.endpoints)

    def _explain(self, member: _Member, expansion: Expansion) -> None:
        pod = member.pod
        if expansion.reason and expansion.reason != member.reason:
            # A pod that says it is ready and still gets no traffic is somebody's mistake.
            report = log.warning if pod.ready and not pod.terminating else log.debug
            name = f"{pod.namespace}/{pod.name}"
            report("pod has no endpoint", pod=name, reason=expansion.reason)
        member.reason = expansion.reason

    def _replace(self, member: _Member, endpoints: tuple[Endpoint, ...]) -> None:
        old = {endpoint.id: endpoint for endpoint in member.endpoints}
        new = tuple(_kept(old.get(endpoint.id), endpoint) for endpoint in endpoints)
        if new == member.endpoints:
            return
        self._index.remove(member.endpoints)
        self._index.add(new)
        for endpoint in member.endpoints:
            self._before.setdefault(endpoint.id, endpoint)
            self._after[endpoint.id] = None
        for endpoint in new:
            self._before.setdefault(endpoint.id, None)
            self._after[endpoint.id] = endpoint
        member.endpoints = new

    def _publish(self) -> None:
        old = self._snapshot
        if not self._after and self._pool == old.pool and self._is_synced == old.synced:
            return
        endpoints, by_address, by_ip = self._index.frozen()
        self._snapshot = Snapshot(
            pool=self._pool,
            synced=self._is_synced,
            is_pool_gone=self._pool is None and (old.is_pool_gone or old.pool is not None),
            endpoints=endpoints,
            by_address=by_address,
            by_ip=by_ip,
        )
        change = self._change(old)
        if self._is_synced:
            self._synced.set()
        for listener in tuple(self._listeners):
            listener(change)

    def _change(self, old: Snapshot) -> Change:
        pairs = [(self._before[id_], after) for id_, after in self._after.items()]
        self._before, self._after = {}, {}
        return Change(
            old=old,
            new=self._snapshot,
            added=_in_order(after for before, after in pairs if after and before is None),
            removed=_in_order(before for before, after in pairs if before and after is None),
            replaced=_in_order(
                after for before, after in pairs if before and after and after is not before
            ),
        )


def _in_order(endpoints: Iterable[Endpoint]) -> tuple[Endpoint, ...]:
    return tuple(sorted(endpoints, key=pool_order))


def _kept(old: Endpoint | None, new: Endpoint) -> Endpoint:
    """The old object as long as it says the same: others may have hung state on it."""
    return old if old is not None and _metadata(old) == _metadata(new) else new


def _metadata(endpoint: Endpoint) -> tuple[object, ...]:
    return (
        endpoint.address,
        endpoint.name,
        endpoint.namespace,
        endpoint.rank,
        endpoint.labels,
        endpoint.node_address,
        endpoint.hostname,
        endpoint.state,
    )
