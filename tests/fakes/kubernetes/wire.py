"""Requests to an API server and watches of it, answered as a real one answers them."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from aiohttp import web

from tests.fakes.kubernetes.documents import KINDS, bookmark, line_of, status_of
from tests.fakes.kubernetes.objects import Manifest
from tests.fakes.kubernetes.selectors import Matches, matches
from tests.fakes.kubernetes.store import Entry, KubeStore, Refusal, Target, target_of_path

_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_SERVED = {
    ("", "pods"),
    ("", "events"),
    ("inference.networking.k8s.io", "inferencepools"),
    ("coordination.k8s.io", "leases"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
}
END = b""
"""In place of a line: the watch ends."""


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    verb: str
    resource: str
    query: Mapping[str, str]
    token: str


@dataclass
class Fault:
    """What some of the next requests get in place of an answer."""

    claim: Callable[[Seen], bool]
    answer: Callable[[], web.StreamResponse]
    times: int


@dataclass(eq=False)
class Watcher:
    """A watch that is open, and the lines it is still to get."""

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
            self.lines.put_nowait(line_of("MODIFIED" if was else "ADDED", entry.last))
        elif was:
            gone = {**(entry.old or {})}
            gone["metadata"] = {
                **gone["metadata"],
                "resourceVersion": str(entry.revision),
            }
            self.lines.put_nowait(line_of("DELETED", gone))


class KubeWire:
    """What arrives is answered from a store, unless something was made to go wrong."""

    def __init__(self) -> None:
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
        self._faults: list[Fault] = []
        self._watchers: list[Watcher] = []
        self._watchable_since = 0
        self._running = asyncio.Event()

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
            document = status_of(refusal.status, refusal.reason, refusal.message)
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
            match = selection(query)
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
        return {"kind": f"{KINDS[target.resource]}List", "metadata": metadata, "items": items}

    async def _watch(self, request: web.Request, target: Target) -> web.StreamResponse:
        query = request.query
        watcher = Watcher(
            target=target,
            match=selection(query),
            since=int(query.get("resourceVersion") or 0) or self.store.revision,
            bookmarks=query.get("allowWatchBookmarks") == "true",
        )
        self._begin(watcher, query)
        self._watchers.append(watcher)
        try:
            return await self._stream(request, watcher, float(query.get("timeoutSeconds", 1800)))
        finally:
            self._watchers.remove(watcher)

    def _begin(self, watcher: Watcher, query: Mapping[str, str]) -> None:
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
                    put(line_of("ADDED", found))
            if wants_initial and watcher.bookmarks and self.watch_list == "on":
                put(bookmark(watcher.target, self.store.revision, ends_initial_events=True))
        elif watcher.since < self._watchable_since:
            message = f"too old resource version: {watcher.since}"
            put(line_of("ERROR", status_of(410, "Expired", message)))
            put(END)
        else:
            for entry in self.store.history:
                watcher.tell(entry)

    async def _stream(
        self, request: web.Request, watcher: Watcher, timeout_seconds: float
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


def selection(query: Mapping[str, str]) -> Matches:
    try:
        return matches(query.get("labelSelector", ""), query.get("fieldSelector", ""))
    except ValueError as error:
        raise Refusal(400, "BadRequest", str(error)) from error


def _page_not_found() -> web.Response:
    return web.Response(status=404, text="404 page not found\n")
