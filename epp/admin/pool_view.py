"""A pool as operators see it: on the admin port, and in `epp pool show`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from epp.datastore.inference_pool import FailureMode, InferencePool
    from epp.datastore.pods import Pod
    from epp.datastore.snapshot import Snapshot
    from epp.framework.endpoint import Endpoint


class PoolPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The InferencePool itself."""

    name: str
    namespace: str
    match_labels: dict[str, str]
    target_ports: list[int]
    app_protocol: str
    failure_mode: str | None


class EndpointPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An endpoint that can be picked."""

    address: str
    name: str
    namespace: str
    labels: dict[str, str]
    in_flight: int
    recent_picks: int
    waiting: int = 0
    running: int = 0
    kv_cache_usage: float = 0.0
    prefix_share: float | None = None
    """Of all prefixes that are believed to be cached somewhere, how much is here; None: it is not
    kept."""
    metrics_age_seconds: float | None = None
    """Of the three that are reported; None: it was never heard of."""
    is_stale: bool = False
    """Whether they are too old to be believed: nothing is sent there while others are fresh."""
    is_ejected: bool = False
    """Whether it answers with errors, or not at all: at most single requests are sent there."""


class PodPart(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of the pool that has no endpoint."""

    name: str
    namespace: str
    reason: str


class PoolView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All of it."""

    pool: PoolPart | None
    failure_mode_in_force: str
    ready: bool
    not_ready_reasons: list[str]
    problems: list[str] = []
    """What is wrong with the pool, in whole sentences."""
    endpoints: list[EndpointPart]
    pods_without_endpoint: list[PodPart] = []


def view_pool(
    snapshot: Snapshot,
    *,
    failure_mode: FailureMode,
    not_ready_reasons: Sequence[str],
    problems: Sequence[str],
    unmatched: Iterable[tuple[Pod, str]],
    is_ejected: Callable[[Endpoint], bool] = lambda _: False,
    prefix_shares: Mapping[str, float] | None = None,
    now: float | None = None,
) -> PoolView:
    """The pool at one moment; `now` is the monotonic time that ages are told by."""
    now = time.monotonic() if now is None else now
    return PoolView(
        pool=None if snapshot.pool is None else _pool(snapshot.pool),
        failure_mode_in_force=failure_mode,
        ready=not not_ready_reasons,
        not_ready_reasons=list(not_ready_reasons),
        problems=list(problems),
        endpoints=[
            _endpoint(endpoint, now, is_ejected(endpoint), prefix_shares)
            for endpoint in snapshot.endpoints
        ],
        pods_without_endpoint=[
            PodPart(name=pod.name, namespace=pod.namespace, reason=reason)
            for pod, reason in unmatched
        ],
    )


def _pool(pool: InferencePool) -> PoolPart:
    return PoolPart(
        name=pool.name,
        namespace=pool.namespace,
        match_labels=dict(pool.match_labels),
        target_ports=list(pool.target_ports),
        app_protocol=pool.app_protocol,
        failure_mode=pool.failure_mode,
    )


def _endpoint(
    endpoint: Endpoint, now: float, is_ejected: bool, prefix_shares: Mapping[str, float] | None
) -> EndpointPart:
    metrics = endpoint.metrics
    share = None
    if prefix_shares is not None:
        share = round(prefix_shares.get(f"{endpoint.namespace}/{endpoint.name}", 0.0), 4)
    age = None if metrics.updated_at is None else round(now - metrics.updated_at, 3)
    return EndpointPart(
        address=endpoint.address,
        name=endpoint.name,
        namespace=endpoint.namespace,
        labels=dict(endpoint.labels),
        in_flight=endpoint.load.in_flight,
        recent_picks=endpoint.load.recent_picks,
        waiting=metrics.waiting_queue_size,
        running=metrics.running_requests_size,
        kv_cache_usage=metrics.kv_cache_usage,
        prefix_share=share,
        metrics_age_seconds=age,
        is_stale=endpoint.is_stale,
        is_ejected=is_ejected,
    )
