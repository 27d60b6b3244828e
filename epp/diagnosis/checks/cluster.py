"""Is there an API server, does it let us in, and do its clock and ours agree?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import aiohttp
import msgspec

from epp.diagnosis.doctor_case import Case
from epp.diagnosis.doctor_findings import Finding, fault, ok, skipped, warning
from epp.framework.errors import ConfigError
from epp.kubernetes.answers import KubeStatusError, KubeUnreachable, status_error
from epp.kubernetes.client import KubeClient
from epp.kubernetes.envelopes import UNREADABLE

CLUSTER, CLOCK = "cluster", "clock"
_OF_PROXIES = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE)
_SECONDS = 4.0
_NOTICEABLE_SECONDS = 5.0
_HARMFUL_SECONDS = 60.0


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""


async def look_at_cluster(case: Case, now: Callable[[], float] = time.time) -> Iterable[Finding]:
    """The API server: reachable, and which one; its clock."""
    if not case.options.pool.is_in_cluster:
        return [skipped(CLUSTER, case.why_no_cluster)]
    options = case.options
    try:
        client = await KubeClient.connect(options.kubeconfig, options.kube_context or None)
    except ConfigError as error:
        advice = "look at --kubeconfig and --kube-context, or run it in the picker's pod"
        return [fault(CLUSTER, str(error), advice)]
    try:
        status, content, date = await _ask_version(client)
        case.client = client
    except (KubeUnreachable, KubeStatusError) as error:
        return [_refused(client.server, error)]
    finally:
        if case.client is None:
            await client.close()
    version = _version(content) if status == HTTPStatus.OK else ""
    return [ok(CLUSTER, f"{client.server}{version and f' ({version})'}"), *_clock(date, now())]


async def _ask_version(client: KubeClient) -> tuple[int, bytes, str]:
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    async with client.request(
        "GET", "/version", timeout=timeout, response_timeout=_SECONDS
    ) as response:
        if response.status in (HTTPStatus.UNAUTHORIZED, *_OF_PROXIES):
            raise await status_error(response)
        return response.status, await response.read(), response.headers.get("Date", "")


def _refused(server: str, error: KubeUnreachable | KubeStatusError) -> Finding:
    if isinstance(error, KubeStatusError):
        text = f"the API server {server} does not let us in: {error}"
        advice = (
            "renew the credentials; in a pod: is its ServiceAccount still the one it was started"
            " with?"
        )
        return fault(CLUSTER, text, advice)
    text = f"no answer from the API server {server}: {error}"
    advice = (
        "is the address right, and does the NetworkPolicy of the picker let it out to that port?"
    )
    return fault(CLUSTER, text, advice)


def _version(content: bytes) -> str:
    try:
        return msgspec.json.decode(content, type=_Version).git_version
    except UNREADABLE:
        return ""


def _clock(date: str, now: float) -> Iterable[Finding]:
    try:
        theirs = parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return [skipped(CLOCK, "the API server tells no time")]
    # The header has whole seconds, cut off.
    ahead = now - theirs - 0.5
    if abs(ahead) < _NOTICEABLE_SECONDS:
        return [ok(CLOCK, "agrees with the API server's")]
    told = f"this clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the"
    told += " API server's"
    advice = "set the clocks by NTP: tokens, certificates and the leader's Lease have times in them"
    judge = fault if abs(ahead) >= _HARMFUL_SECONDS else warning
    return [judge(CLOCK, told, advice)]
