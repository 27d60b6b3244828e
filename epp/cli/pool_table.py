"""A pool as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from epp.admin.pool_view import EndpointPart, PoolPart, PoolView
from epp.diagnosis.columns import columns
from epp.support.safe_text import printable

_METRICS = ("WAITING", "RUNNING", "KV CACHE")


def pool_table(view: PoolView, *, has_load: bool) -> str:
    """What an operator wants to see; with load, if the picker that was asked knows it."""
    return "\n".join([*_summary(view), *_endpoints(view, has_load), *_pods(view)]) + "\n"


def _summary(view: PoolView) -> Iterator[str]:
    if view.pool is not None:
        yield from _pool(view.pool)
    yield f"failure mode  {view.failure_mode_in_force}{_overruled(view)}"
    reasons = "; ".join(view.not_ready_reasons)
    yield f"ready         {'yes' if view.ready else f'no: {printable(reasons)}'}"
    for problem in view.problems:
        first, *rest = problem.splitlines() or [""]
        yield f"problem       {printable(first)}"
        yield from (f"              {printable(line)}" for line in rest)


def _pool(pool: PoolPart) -> Iterator[str]:
    yield f"pool          {printable(f'{pool.namespace}/{pool.name}')}"
    if pool.match_labels:
        labels = ",".join(f"{key}={value}" for key, value in sorted(pool.match_labels.items()))
        yield f"selector      {printable(labels)}"
    if pool.target_ports:
        yield f"target ports  {', '.join(map(str, pool.target_ports))}"
    yield f"app protocol  {printable(pool.app_protocol)}"


def _overruled(view: PoolView) -> str:
    own = view.pool.failure_mode if view.pool is not None else None
    overruled = own is not None and own != view.failure_mode_in_force
    return f" (by --failure-mode; the pool says {own})" if overruled else ""


def _endpoints(view: PoolView, has_load: bool) -> Iterator[str]:
    yield ""
    if not view.endpoints:
        yield "no endpoint: every request is answered with 503"
        return
    heading = ("ENDPOINT", "NAME", "IN FLIGHT", "RECENT PICKS", *_METRICS, "HEARD")
    rows = [heading, *(_endpoint(endpoint) for endpoint in view.endpoints)]
    shown = len(heading) if has_load else 2
    yield from columns([row[:shown] for row in rows])


def _endpoint(endpoint: EndpointPart) -> tuple[str, ...]:
    load = str(endpoint.in_flight), str(endpoint.recent_picks)
    age = endpoint.metrics_age_seconds
    metrics: tuple[str, ...] = ("-",) * len(_METRICS)
    heard = "-"
    marks = []
    if age is not None:
        metrics = (
            str(endpoint.waiting),
            str(endpoint.running),
            f"{endpoint.kv_cache_usage:.0%}",
        )
        heard = f"{age:.1f}s"
        marks += ["stale"] * endpoint.is_stale
    marks += ["ejected"] * endpoint.is_ejected
    if marks:
        heard = f"{heard} ({', '.join(marks)})"
    return endpoint.address, f"{endpoint.namespace}/{endpoint.name}", *load, *metrics, heard


def _pods(view: PoolView) -> Iterator[str]:
    if not view.pods_without_endpoint:
        return
    yield ""
    rows = [("POD WITHOUT ENDPOINT", "REASON")]
    rows += [(f"{pod.namespace}/{pod.name}", pod.reason) for pod in view.pods_without_endpoint]
    yield from columns(rows)
