"""The objects of any kind, for plugins that follow one: found by discovery, then watched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
import structlog

from epp.kubernetes.answers import KubeStatusError, KubeUnreachable, status_error
from epp.kubernetes.envelopes import decode_metadata
from epp.kubernetes.reflector import Reflector
from epp.kubernetes.reflector_context import ReflectorContext
from epp.kubernetes.resource import KubeObject, Resource
from epp.kubernetes.store import Store, StoreChange

log = structlog.get_logger(__name__)

Object = dict[str, Any]
Tell = Callable[[Mapping[str, Any], bool], None]
"""Called with an object and whether it was deleted."""

PAUSE_SECONDS = 30.0
"""Between two looks for a kind that is not served: its definition may come later."""


class _ApiResource(msgspec.Struct, frozen=True, gc=False):
    name: str
    kind: str
    namespaced: bool = True


class _ApiResources(msgspec.Struct, frozen=True, gc=False):
    resources: list[_ApiResource] = []


_decode_resources = msgspec.json.Decoder(_ApiResources).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


class ObjectFeed:
    """Tells of every object of one kind that comes, changes or goes."""

    def __init__(
        self,
        context: ReflectorContext,
        *,
        group: str,
        version: str,
        kind: str,
        namespace: str,
        tell: Tell,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self._context = context
        self._api = f"/apis/{group}/{version}" if group else f"/api/{version}"
        self._group = group
        self._version = version
        self._kind = kind
        self._namespace = namespace
        self._tell = tell
        self._pause_seconds = pause_seconds

    async def run(self) -> None:
        """Follow the kind for ever."""
        found = await self._find()
        resource = Resource(
            name=found.name,
            group=self._group,
            version=self._version,
            namespace=self._namespace if found.namespaced else "",
            is_optional=True,
            decode=_decode,
        )
        await Reflector(self._context, resource, Store(self._changed)).run()

    def _changed(self, changes: Sequence[StoreChange[Object]]) -> None:
        for change in changes:
            if change.new is not None:
                self._tell(change.new.value, False)
            elif change.old is not None:
                self._tell(change.old.value, True)

    async def _find(self) -> _ApiResource:
        told = False
        while True:
            try:
                found = await self._look()
            except (KubeUnreachable, KubeStatusError, msgspec.MsgspecError) as error:
                found, problem = None, str(error)
            else:
                problem = "no such kind"
            if found is not None:
                return found
            if not told:
                told = True
                log.warning(
                    "kind can't be followed yet", api=self._api, kind=self._kind, problem=problem
                )
            await asyncio.sleep(self._pause_seconds)

    async def _look(self) -> _ApiResource | None:
        async with self._context.client.request("GET", self._api) as response:
            if response.status == HTTPStatus.NOT_FOUND:
                return None
            if response.status != HTTPStatus.OK:
                raise await status_error(response)
            known = _decode_resources(await response.read()).resources
        # Subresources have the kind of their parent: `pods/status`.
        matching = (each for each in known if each.kind == self._kind and "/" not in each.name)
        return next(matching, None)


def _decode(content: bytes | msgspec.Raw) -> KubeObject[Object]:
    return decode_metadata(content).identify(_decode_object(content))
