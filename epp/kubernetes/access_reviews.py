"""The API server asked about tokens (TokenReview) and rights (SubjectAccessReview)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
import structlog

from epp.kubernetes.answers import KubeStatusError, KubeUnreachable, status_error
from epp.kubernetes.client import KubeClient
from epp.kubernetes.envelopes import UNREADABLE
from epp.support.access import Identity, ReviewFailed

log = structlog.get_logger(__name__)

TIMEOUT_SECONDS = 5.0
_REMEDY = (
    "bind the ClusterRole epp-metrics-auth (config/components/metrics-auth) to the picker's"
    " ServiceAccount, or start it with --metrics-endpoint-auth=false"
)


class _User(msgspec.Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = {}


class _TokenStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: _User = _User()


class _TokenReview(msgspec.Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(msgspec.Struct, frozen=True):
    allowed: bool = False
    denied: bool = False


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


Review = TypeVar("Review", _TokenReview, _AccessReview)


class KubeAccessReviews:
    """Asks the API server each time."""

    def __init__(self, client: KubeClient, timeout: float = TIMEOUT_SECONDS) -> None:
        self._client = client
        self._timeout = timeout
        self._told: dict[str, str] = {}

    async def authenticate(self, token: str) -> Identity | None:
        """Whom the token belongs to; None: it is not valid."""
        spec = {"token": token}
        review = await self._ask("authentication.k8s.io", "TokenReview", spec, _TokenReview)
        status, user = review.status, review.status.user
        if not status.authenticated or not user.username:
            return None
        return Identity(username=user.username, uid=user.uid, groups=user.groups, extra=user.extra)

    async def authorize(self, identity: Identity, path: str, verb: str) -> bool:
        """Whether they may do this to a path that is no resource of the cluster."""
        spec = {
            "user": identity.username,
            "uid": identity.uid,
            "groups": identity.groups,
            "extra": identity.extra,
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        group = "authorization.k8s.io"
        review = await self._ask(group, "SubjectAccessReview", spec, _AccessReview)
        return review.status.allowed and not review.status.denied

    async def _ask(
        self, group: str, kind: str, spec: Mapping[str, Any], answer: type[Review]
    ) -> Review:
        resource = f"{kind.lower()}s"
        body = msgspec.json.encode({"apiVersion": f"{group}/v1", "kind": kind, "spec": spec})
        try:
            path = f"/apis/{group}/v1/{resource}"
            review = _read(await self._answer(f"{resource}.{group}", path, body), answer)
        except ReviewFailed as error:
            if self._told.get(resource) != error.kind:
                self._told[resource] = error.kind
                log.error("requests to the metrics port are refused", problem=str(error))
            raise
        if self._told.pop(resource, None):
            log.info("the metrics port is open again", resource=resource)
        return review

    async def _answer(self, resource: str, path: str, body: bytes) -> bytes:
        try:
            async with asyncio.timeout(self._timeout):
                return await self._post(path, body)
        except KubeStatusError as error:
            raise _refused(error, resource) from error
        except KubeUnreachable as error:
            raise ReviewFailed("unreachable", "the API server can't be reached") from error
        except TimeoutError as error:
            problem = f"the API server did not answer within {self._timeout:g} s"
            raise ReviewFailed("silent", problem) from error

    async def _post(self, path: str, body: bytes) -> bytes:
        async with self._client.request("POST", path, body=body) as response:
            if response.status >= HTTPStatus.BAD_REQUEST:
                raise await status_error(response)
            return await response.read()


def _refused(error: KubeStatusError, resource: str) -> ReviewFailed:
    if error.status == HTTPStatus.FORBIDDEN:
        problem = f"the picker may not create {resource}: {_REMEDY}"
        return ReviewFailed("forbidden", problem)
    # What the API server says may quote what it was sent, the token.
    problem = f"the API server answered {error.status} to create {resource}"
    return ReviewFailed(str(error.status), problem)


def _read(content: bytes, kind: type[Review]) -> Review:
    try:
        return msgspec.json.decode(content, type=kind)
    except UNREADABLE:
        # Without the cause, which may quote the answer.
        raise ReviewFailed("unreadable", "the API server sent what is no review") from None
