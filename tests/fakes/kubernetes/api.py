"""An API server in the test's own process: honest on the wire, and breakable in every way."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web

from epp.kubernetes.client import KubeClient
from tests.fakes.kubernetes.objects import Manifest
from tests.fakes.kubernetes.selectors import Matches, matches
from tests.fakes.kubernetes.store import (
    Entry,
    KubeStore,
    Refusal,
    Target,
    target_of,
    target_of_path,
)

_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_SERVED = {
    ("", "pods"),
    ("", "events"),
    ("inference.networking.k8s.io", "inferencepools"),
    ("coordination.k8s.io", "leases"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
}
_KINDS = {
    "pods": "Pod",
    "inferencepools": "InferencePool",
    "inferenceobjectives": "InferenceObjective",
    "leases": "Lease",
    "events": "Event",
}
_END = b""


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    verb: str
    resource: str
    query: Mapping[str, str]
    token: str


@dataclass
class _Fault:
    claim: Callable[[Seen], bool]
    answer: Callable[[], web.StreamResponse]
    times: int


@dataclass(eq=False)
class _Watcher:
    target: Target
    match: Matches
    since: int
    bookmarks: bool
    lines: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)

    def tell(self, entry: Entry) -> None:
        if entry.collection != self.target.collection or entry.revision <= self.since:
            return
        was = entry.old is not None and self.match(entry.old)
        is_ = entry.new is not None and self.match(entry.new)
        if is_:
            self.lines.put_nowait(_line("MODIFIED" if was else "ADDED", entry.last))
        elif was:
            gone = {**(entry.old or {})}
            gone["metadata"] = {
                **gone["metadata"],
                "resourceVersion": str(entry.revision),
            }
            self.lines.put_nowait(_line("DELETED", gone))


_TURNS_OF_AN_ACCEPT = 5


class FakeKubeApi:
    """Serves pods, InferencePools and Leases on loopback; one for each test."""

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self.tls = tls
        """In force from the next start on."""
        self.store = KubeStore(self._changed)
        self.seen: list[Seen] = []
        self.tokens: set[str] | None = None
        """Those that are accepted; None: any, and none at all."""
        self.users: dict[str, str] = {}
        """Names by token, as reviews tell them."""
        self.path_rights: set[tuple[str, str, str]] = set()
        """User, verb and path of what reviews allow."""
        self.watch_list: Literal["on", "off", "endless"] = "on"
        """`off`: as a server that knows but refuses it; `endless`: its end is never told."""
        self.longest_write: int | None = None
        self.list_gap = 0.0
        """Seconds between the bytes of a list."""
        self.is_mute = False
        """Whether changes are kept from all watches, for ever."""
        self._served = set(_SERVED)
        self._forbidden: set[tuple[str, str]] = set()
        self._faults: list[_Fault] = []
        self._watchers: list[_Watcher] = []
        self._watchable_since = 0
        self._running = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self.port = 0

    # -- life ---------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Serve, at the same port as before; what watches knew of older changes is forgotten."""
        self._watchable_since = self.store.revision if self.port else 0
        self._running.set()
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            app, shutdown_timeout=0.0, handler_cancellation=True, access_log=None
        )
        await self._runner.setup()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        await web.SockSite(self._runner, self._listener, ssl_context=self.tls).start()
        self.port = self._runner.addresses[0][1]

    async def kill(self) -> None:
        """End without a goodbye; what is stored stays."""
        if self._runner is not None:
            # asyncio loses a connection that it has accepted when the server closes before the
            # connection's handler is made: so let no more in first, and wait for that.
            asyncio.get_running_loop().remove_reader(self._listener)
            for _ in range(_TURNS_OF_AN_ACCEPT):
                await asyncio.sleep(0)
            self.cut()
            await self._runner.cleanup()
            self._runner = None

    async def restart(self) -> None:
        """Kill and start: every watch from before gets 410."""
        await self.kill()
        await self.start()

    async def wipe(self) -> None:
        """Lose all data and start over, as after a restore from a backup."""
        await self.kill()
        self.store.wipe()
        await self.start()
        self._watchable_since = 0

    @asynccontextmanager
    async def client(self, token: str | None = None) -> AsyncIterator[KubeClient]:
        """A client of this server."""
        client = KubeClient.of_server(self.url, token)
        try:
            yield client
        finally:
            await client.close()

    # -- what a user does ---------------------------------------------------------------------

    async def create(self, manifest: Manifest) -> Manifest:
        """Create the object, in the namespace it names."""
        return self.store.create(target_of(manifest), manifest)

    async def replace(self, manifest: Manifest) -> Manifest:
        """Put the object in the place of the one that is there, whatever that is."""
        target = target_of(manifest)
        metadata = {
            **manifest["metadata"],
            "resourceVersion": self.store.get(target)["metadata"]["resourceVersion"],
        }
        return self.store.update(target, {**manifest, "metadata": metadata})

    async def patch(
        self, manifest: Manifest, change: Mapping[str, Any], subresource: str = ""
    ) -> Manifest:
        """Merge a change into the object a manifest names."""
        return self.store.patch(target_of(manifest, subresource), change)

    async def delete(self, manifest: Manifest, *, grace_seconds: int | None = None) -> None:
        """Delete the object a manifest names; a pod with a node is only told to go."""
        self.store.delete(target_of(manifest), grace_seconds)

    async def objects(self, manifest: Manifest) -> list[Manifest]:
        """All objects of the manifest's kind and namespace."""
        return self.store.objects(target_of(manifest))

    # -- what goes wrong ----------------------------------------------------------------------

    async def freeze(self) -> None:
        """Keep every connection open and answer nothing."""
        self._running.clear()

    async def thaw(self) -> None:
        """Go on after `freeze`."""
        self._running.set()

    def cut(self) -> None:
        """Break all connections."""
        for transport in self.connections:
            transport.abort()

    def end_watches(self) -> None:
        """End all watches as their timeout does."""
        self.inject(_END)

    def inject(self, line: bytes) -> None:
        """Send a line, or what should have been one, on all watches."""
        for watcher in self._watchers:
            watcher.lines.put_nowait(line)

    def send_bookmarks(self) -> None:
        """Tell all watches that want it how far they are."""
        for watcher in self._watchers:
            if watcher.bookmarks:
                watcher.lines.put_nowait(_bookmark(watcher.target, self.store.revision))

    def send_error(self, code: int, reason: str) -> None:
        """End all watches by an error event."""
        self.inject(_line("ERROR", _status(code, reason, "as the test wants it")))
        self.end_watches()

    def expire(self) -> None:
        """Forget history: watches that open now at an older version get 410."""
        self._watchable_since = self.store.revision

    def fail(
        self,
        status: int,
        *,
        verb: str | None = None,
        resource: str | None = None,
        times: int = 1_000_000,
        reason: str = "",
        text: str | None = None,
        headers: Mapping[str, str] | None = None,
        when: Callable[[Seen], bool] = lambda seen: True,
    ) -> None:
        """Answer the next requests that are meant like this; `text` instead of a Status object."""

        def claim(seen: Seen) -> bool:
            return verb in (None, seen.verb) and resource in (None, seen.resource) and when(seen)

        def answer() -> web.StreamResponse:
            if text is not None:
                return web.Response(
                    status=status, text=text, content_type="text/html", headers=headers
                )
            document = _status(status, reason, "as the test wants it")
            return web.json_response(document, status=status, headers=headers)

        self._faults.append(_Fault(claim, answer, times))

    def heal(self) -> None:
        """Forget all that `fail` was told."""
        self._faults.clear()

    def forbid(self, verb: str, resource: str) -> None:
        """Nobody may do this any more."""
        self._forbidden.add((verb, resource))

    def allow(self, verb: str, resource: str) -> None:
        """Take back `forbid`."""
        self._forbidden.discard((verb, resource))

    def remove_definition(self, group: str, resource: str) -> None:
        """Without its CustomResourceDefinition a resource does not exist."""
        self._served.discard((group, resource))

    def restore_definition(self, group: str, resource: str) -> None:
        """Take back `remove_definition`."""
        self._served.add((group, resource))

    # -- what a test sees ---------------------------------------------------------------------

    def requests(self, verb: str, resource: str) -> list[Seen]:
        """Those of one kind that have arrived so far."""
        return [seen for seen in self.seen if (seen.verb, seen.resource) == (verb, resource)]

    def watches(self, resource: str) -> int:
        """How many watches of the resource are open."""
        return sum(watcher.target.resource == resource for watcher in self._watchers)

    @property
    def connections(self) -> list[asyncio.Transport]:
        """Those that are open, used or not."""
        server = self._runner.server if self._runner else None
        handlers = server.connections if server else ()
        return [handler.transport for handler in handlers if handler.transport is not None]

    # -- the wire -----------------------------------------------------------------------------

    def _changed(self, entry: Entry) -> None:
        if self.is_mute:
            self.store.history.remove(entry)
            return
        for watcher in self._watchers:
            watcher.tell(entry)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        await self._running.wait()
        target = target_of_path(request.path)
        if target is None:
            return _page_not_found()
        verb = _VERBS[request.method]
        if verb == "get" and not target.name:
            verb = "watch" if request.query.get("watch") == "true" else "list"
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        seen = Seen(verb, target.resource, dict(request.query), token)
        self.seen.append(seen)
        try:
            return await self._answer(request, target, seen)
        except Refusal as refusal:
            document = _status(refusal.status, refusal.reason, refusal.message)
            return web.json_response(document, status=refusal.status)

    async def _answer(self, request: web.Request, target: Target, seen: Seen) -> web.StreamResponse:
        if self.tokens is not None and seen.token not in self.tokens:
            raise Refusal(401, "Unauthorized", "Unauthorized")
        for fault in self._faults:
            if fault.times and fault.claim(seen):
                fault.times -= 1
                return fault.answer()
        if (seen.verb, target.resource) in self._forbidden:
            raise Refusal(
                403,
                "Forbidden",
                f'{target.resource} is forbidden: User "test" cannot {seen.verb} resource '
                f'"{target.resource}" in API group "{target.group}" '
                f'in the namespace "{target.namespace}"',
            )
        if (target.group, target.resource) not in self._served:
            return _page_not_found()
        if seen.verb == "watch":
            return await self._watch(request, target)
        if seen.verb == "list":
            return await self._list(request, self._page(target, seen.query))
        return await self._single(request, target, seen)

    async def _list(self, request: web.Request, page: Manifest) -> web.StreamResponse:
        if not self.list_gap:
            return web.json_response(page)
        response = web.StreamResponse()
        await response.prepare(request)
        for byte in json.dumps(page).encode():
            await response.write(bytes([byte]))
            await asyncio.sleep(self.list_gap)
        return response

    async def _single(self, request: web.Request, target: Target, seen: Seen) -> web.Response:
        body = await request.json() if request.can_read_body else {}
        if target.resource.endswith("reviews"):
            return web.json_response(self._reviewed(target, body), status=201)
        match seen.verb:
            case "get":
                return web.json_response(self.store.get(target))
            case "create":
                return web.json_response(self.store.create(target, body), status=201)
            case "update":
                return web.json_response(self.store.update(target, body))
            case "patch":
                return web.json_response(self.store.patch(target, body))
        grace = seen.query.get("gracePeriodSeconds")
        return web.json_response(self.store.delete(target, None if grace is None else int(grace)))

    def _reviewed(self, target: Target, review: Manifest) -> Manifest:
        spec = review["spec"]
        if target.resource == "tokenreviews":
            user = self.users.get(spec["token"])
            if user is None:
                return {**review, "status": {"user": {}, "error": "invalid bearer token"}}
            groups = ["system:authenticated"]
            status = {"authenticated": True, "user": {"username": user, "groups": groups}}
            return {**review, "status": status}
        asked = spec["nonResourceAttributes"]
        allowed = (spec["user"], asked["verb"], asked["path"]) in self.path_rights
        return {**review, "status": {"allowed": allowed}}

    def _page(self, target: Target, query: Mapping[str, str]) -> Manifest:
        version = int(query.get("resourceVersion") or 0)
        if version > self.store.revision:
            raise Refusal(504, "Timeout", "Too large resource version")
        limit = int(query.get("limit") or 0)
        if "continue" in query:
            rest = json.loads(base64.b64decode(query["continue"]))
            items, revision = rest["items"], rest["revision"]
        else:
            match = _selection(query)
            items = [found for found in self.store.objects(target) if match(found)]
            revision = self.store.revision
            if "resourceVersion" in query:
                limit = 0  # an API server ignores it together with a version
        metadata: Manifest = {"resourceVersion": str(revision)}
        if limit and len(items) > limit:
            rest = {"items": items[limit:], "revision": revision}
            metadata["continue"] = base64.b64encode(json.dumps(rest).encode()).decode()
            metadata["remainingItemCount"] = len(items) - limit
            items = items[:limit]
        return {"kind": f"{_KINDS[target.resource]}List", "metadata": metadata, "items": items}

    async def _watch(self, request: web.Request, target: Target) -> web.StreamResponse:
        query = request.query
        watcher = _Watcher(
            target=target,
            match=_selection(query),
            since=int(query.get("resourceVersion") or 0) or self.store.revision,
            bookmarks=query.get("allowWatchBookmarks") == "true",
        )
        self._begin(watcher, query)
        self._watchers.append(watcher)
        try:
            return await self._stream(request, watcher, float(query.get("timeoutSeconds", 1800)))
        finally:
            self._watchers.remove(watcher)

    def _begin(self, watcher: _Watcher, query: Mapping[str, str]) -> None:
        put = watcher.lines.put_nowait
        wants_initial = query.get("sendInitialEvents") == "true"
        if wants_initial and self.watch_list == "off":
            raise Refusal(
                422,
                "Invalid",
                "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless "
                "the WatchList feature gate is enabled",
            )
        if wants_initial and query.get("resourceVersionMatch") != "NotOlderThan":
            raise Refusal(422, "Invalid", "resourceVersionMatch: Forbidden")
        if query.get("resourceVersion", "0") == "0":
            for found in self.store.objects(watcher.target):
                if watcher.match(found):
                    put(_line("ADDED", found))
            if wants_initial and watcher.bookmarks and self.watch_list == "on":
                put(_bookmark(watcher.target, self.store.revision, ends_initial_events=True))
        elif watcher.since < self._watchable_since:
            message = f"too old resource version: {watcher.since}"
            put(_line("ERROR", _status(410, "Expired", message)))
            put(_END)
        else:
            for entry in self.store.history:
                watcher.tell(entry)

    async def _stream(
        self, request: web.Request, watcher: _Watcher, timeout_seconds: float
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        ends = asyncio.get_running_loop().time() + timeout_seconds
        try:
            async with asyncio.timeout_at(ends):
                while line := await watcher.lines.get():
                    await self._running.wait()
                    await self._write(response, line)
        except TimeoutError:
            await self._running.wait()
        await response.write_eof()
        return response

    async def _write(self, response: web.StreamResponse, line: bytes) -> None:
        size = self.longest_write or len(line)
        for start in range(0, len(line), size):
            await response.write(line[start : start + size])


def _selection(query: Mapping[str, str]) -> Matches:
    try:
        return matches(query.get("labelSelector", ""), query.get("fieldSelector", ""))
    except ValueError as error:
        raise Refusal(400, "BadRequest", str(error)) from error


def _line(type_: str, document: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": type_, "object": document}).encode() + b"\n"


def _bookmark(target: Target, revision: int, *, ends_initial_events: bool = False) -> bytes:
    annotations = {"k8s.io/initial-events-end": "true"} if ends_initial_events else {}
    metadata = {
        "resourceVersion": str(revision),
        "creationTimestamp": None,
        "annotations": annotations,
    }
    return _line("BOOKMARK", {"kind": _KINDS[target.resource], "metadata": metadata})


def _status(code: int, reason: str, message: str) -> Manifest:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def _page_not_found() -> web.Response:
    return web.Response(status=404, text="404 page not found\n")
