"""Is the running picker ready, and does it pick?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from epp.admin.pool_view import PoolView
from epp.diagnosis.doctor_case import Case
from epp.diagnosis.doctor_findings import Finding, fault, listing, ok, skipped, warning
from epp.diagnosis.gateway_call import CallFailed, Trial, gateway_call
from epp.diagnosis.running_pool import NO_PICKER, UNANSWERED, pool_page
from epp.support.http_problems import http_problem

ADMIN, HEALTH, EXCHANGE = "picker-admin", "picker-health", "picker-exchange"
_NOT_LEADING = "not the leader"
_FORWARD = (
    "name the picker's admin port by --admin, such as one that kubectl port-forward opens: it says"
    " why a picker is not ready"
)
_WAITS = (
    "a picker that has not read its pool holds requests for --decision-timeout: picker-health tells"
    " whether it has; if so, see its log"
)
_MEANINGS = {
    400: "the picker's parsers do not understand a plain completion request: see `parser` of the"
    " configuration",
    413: "raise --max-request-body-bytes",
    429: "the pool is saturated, or filters left no candidate: `epp pool show`, docs/operations.md",
    503: "no endpoint is ready, or the picker is overloaded or not synced: see the checks above,"
    " and `epp pool show`",
}


async def look_at_admin(case: Case) -> Iterable[Finding]:
    """What the running picker says of itself on its admin port."""
    address = case.admin
    if address is None:
        return [skipped(ADMIN, "the picker's pod is not reachable from here", _FORWARD)]
    try:
        case.pool_view = view = await pool_page(address)
    except UNANSWERED as error:
        text = f"{address} can't be asked: {http_problem(error)}"
        if case.asked.admin is not None:
            return [fault(ADMIN, text, "is that the --admin-port of a running picker?")]
        return [skipped(ADMIN, text, _FORWARD)]
    except NO_PICKER:
        text = f"{address} is not the admin port of a picker"
        return [fault(ADMIN, text, "name its --admin-port (9091) by --admin")]
    if view.problems:
        judge = warning if view.ready else fault
        advice = "see the checks above; until then what was good before stays in force"
        return [judge(ADMIN, problem, advice) for problem in view.problems]
    return [
        ok(ADMIN, f"{address}: {_state(view)}; endpoints: {len(view.endpoints)}"),
        *_loads(view),
    ]


def _state(view: PoolView) -> str:
    return "ready" if view.ready else f"not ready: {listing(view.not_ready_reasons)}"


def _loads(view: PoolView) -> Iterator[Finding]:
    stale = [each.address for each in view.endpoints if each.is_stale]
    if stale:
        text = f"no metrics, or none but old ones, of {listing(stale)}"
        advice = "see endpoint-metrics; such endpoints get no requests while others are heard of"
        yield warning(ADMIN, text, advice)
    ejected = [each.address for each in view.endpoints if each.is_ejected]
    if ejected:
        text = f"ejected for answering with errors: {listing(ejected)}"
        yield warning(ADMIN, text, "look into the log of the model server")


async def look_at_health(case: Case) -> Iterable[Finding]:
    """Whether a gateway's health check lets requests come to this picker."""
    if case.port is None or case.is_mute:
        return [skipped(HEALTH, "the picker's port can't be asked")]
    try:
        async with gateway_call(case.port) as call:
            status = await call.health()
    except CallFailed as failure:
        if failure.code == "UNIMPLEMENTED":
            text = "there is no health service on the ext_proc port"
            advice = "gateways that check health there see none: drop --health-checking=false"
            return [warning(HEALTH, text, advice)]
        text = f"the health check fails: {failure}"
        return [fault(HEALTH, text, "is that the ext_proc port of a picker?")]
    if status == "SERVING":
        return [ok(HEALTH, "SERVING")]
    reasons = case.pool_view.not_ready_reasons if case.pool_view is not None else []
    text = f"{status}: {listing(reasons) or 'the admin port, which knows why, was not asked'}"
    if any(_NOT_LEADING in reason for reason in reasons):
        return [warning(HEALTH, text, "nothing, if another replica leads")]
    advice = "see what the checks of cluster and pool say" if reasons else _FORWARD
    return [fault(HEALTH, text, advice)]


async def look_at_exchange(case: Case) -> Iterable[Finding]:
    """A whole request up to the pick, cancelled before anything could be sent on."""
    if case.port is None or case.is_mute:
        return [skipped(EXCHANGE, "the picker's port can't be asked")]
    try:
        async with gateway_call(case.port) as call:
            trial, body = await call.trial(case.asked.model)
    except CallFailed as failure:
        text = f"the trial request ended with {failure}"
        if failure.code == "UNIMPLEMENTED":
            return [fault(EXCHANGE, text, "that is a gRPC server, but no Endpoint Picker")]
        if failure.code == "DEADLINE_EXCEEDED":
            return [fault(EXCHANGE, text, _WAITS)]
        return [fault(EXCHANGE, text, "see the picker's log")]
    return [_judged(case, trial, body)]


def _judged(case: Case, trial: Trial, body: bytes) -> Finding:
    if trial.status is not None:
        text = f"the trial request was answered with {trial.status} {trial.why}".rstrip()
        return fault(EXCHANGE, text, _MEANINGS.get(trial.status, "see the picker's log"))
    if trial.destination is None:
        text = "the picker let the trial request go on without a destination"
        return fault(EXCHANGE, text, "it knows no endpoint yet: see the checks of cluster and pool")
    if trial.metadata != trial.destination:
        text = (
            f"the pick is {trial.destination} in the header, {trial.metadata or 'not'} in metadata"
        )
        return fault(EXCHANGE, text, "is that another picker? Gateways go by either")
    if not trial.has_ended:
        text = "the request's body did not come back"
        return fault(
            EXCHANGE, text, "is that another picker? In full duplex the gateway waits for it"
        )
    # A rewrite of the model changes the body, and nothing else does.
    remark = "" if bytes(trial.body) == body else ", body rewritten"
    return _picked(case, trial.destination, remark)


def _picked(case: Case, destination: str, remark: str) -> Finding:
    known = case.endpoints
    if known is not None and destination not in {endpoint.address for endpoint in known}:
        text = f"picked {destination}, which is no endpoint of the pool as it is seen here"
        return warning(EXCHANGE, text, "does the picker serve this pool? Compare `epp pool show`")
    return ok(EXCHANGE, f"picked {destination} in header and metadata{remark}; nothing was sent")
