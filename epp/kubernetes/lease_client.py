"""The Lease object at the API server: read, created, replaced if nobody else was faster."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from epp.kubernetes.answers import KubeStatusError, KubeUnreachable, status_error
from epp.kubernetes.client import KubeClient
from epp.kubernetes.envelopes import UNREADABLE
from epp.kubernetes.lease import Lease, LeaseError, LeaseRecord

_API = "/apis/coordination.k8s.io/v1"


class KubeLease:
    """One Lease of a namespace."""

    def __init__(self, client: KubeClient, *, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._collection = f"{_API}/namespaces/{namespace}/leases"

    async def read(self) -> Lease | None:
        """The Lease as it is now; None when there is none."""
        try:
            return _lease(await self._request("GET", f"{self._collection}/{self._name}"))
        except KubeStatusError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise LeaseError(f"get lease {self._name}: {error}") from error

    async def write(self, record: LeaseRecord, *, over: Lease | None) -> None:
        """Replace exactly `over`, or create the Lease."""
        try:
            if over is None:
                await self._request("POST", self._collection, self._manifest(record, {}))
            else:
                path = f"{self._collection}/{self._name}"
                await self._request("PUT", path, self._manifest(record, over.manifest))
        except KubeStatusError as error:
            verb = "create" if over is None else "update"
            raise LeaseError(f"{verb} lease {self._name}: {error}") from error

    def _manifest(self, record: LeaseRecord, base: Mapping[str, Any]) -> bytes:
        spec = {
            "holderIdentity": record.holder,
            "leaseDurationSeconds": record.duration_seconds,
            "acquireTime": record.acquire_time,
            "renewTime": record.renew_time,
            "leaseTransitions": record.transitions,
        }
        return msgspec.json.encode(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self._name, "namespace": self._namespace},
                **base,
                "spec": {**(base.get("spec") or {}), **spec},
            }
        )

    async def _request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        # No deadline of its own: the elector bounds each attempt as a whole.
        try:
            async with self._client.request(method, path, body=body) as response:
                if response.status >= HTTPStatus.BAD_REQUEST:
                    raise await status_error(response)
                return await response.read()
        except KubeUnreachable as error:
            raise LeaseError(str(error)) from error


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Manifest(msgspec.Struct):
    spec: _Spec | None = None


def _lease(content: bytes) -> Lease:
    try:
        manifest = msgspec.json.decode(content, type=dict[str, Any])
        spec = msgspec.convert(manifest, _Manifest).spec or _Spec()
    except UNREADABLE as error:
        raise LeaseError(f"the API server sent a Lease that can't be read: {error}") from error
    record = LeaseRecord(
        holder=spec.holder_identity or "",
        duration_seconds=spec.lease_duration_seconds or 0,
        acquire_time=spec.acquire_time or "",
        renew_time=spec.renew_time or "",
        transitions=spec.lease_transitions or 0,
    )
    return Lease(record=record, manifest=manifest)
