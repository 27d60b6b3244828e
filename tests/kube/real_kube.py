"""A real API server with the face of the fake one, so that both can be put to the same test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from epp.kubernetes.client import KubeClient
from tests.fakes.kubernetes.objects import Manifest
from tests.fakes.kubernetes.store import Refusal
from tests.kube.caller import Caller, Refused, collection_of
from tests.kube.harness import ControlPlane

T = TypeVar("T")


class RealKube:
    """`tests.fakes.kubernetes.api.FakeKubeApi`, as far as a real server can be made to do it."""

    def __init__(self, control_plane: ControlPlane, owner: Caller) -> None:
        self._control_plane = control_plane
        self._owner = owner

    @asynccontextmanager
    async def client(self) -> AsyncIterator[KubeClient]:
        """A client of this server."""
        client = await KubeClient.connect(self._control_plane.kubeconfig())
        try:
            yield client
        finally:
            await client.close()

    async def create(self, manifest: Manifest) -> Manifest:
        """Create the object, in the namespace it names."""
        return await _in_thread(lambda: self._owner.create(manifest))

    async def patch(
        self, manifest: Manifest, change: Mapping[str, Any], subresource: str = ""
    ) -> Manifest:
        """Merge a change into the object a manifest names."""
        return await _in_thread(lambda: self._owner.patch(manifest, change, subresource))

    async def delete(self, manifest: Manifest, *, grace_seconds: int | None = None) -> None:
        """Delete the object a manifest names; a pod with a node is only told to go."""
        query = {} if grace_seconds is None else {"gracePeriodSeconds": str(grace_seconds)}
        await _in_thread(lambda: self._owner.delete(manifest, **query))

    async def objects(self, manifest: Manifest) -> list[Manifest]:
        """All objects of the manifest's kind and namespace."""
        path = collection_of(manifest)
        listed = await _in_thread(lambda: self._owner.request("GET", path))
        items: list[Manifest] = listed["items"]
        return items


async def _in_thread(call: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(call)
    except Refused as refused:
        raise Refusal(refused.status, "", refused.message) from refused
