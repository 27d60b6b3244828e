"""An API server in the test's own process: honest on the wire, and breakable in every way."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from epp.kubernetes.client import KubeClient
from tests.fakes.kubernetes.access import plain_client
from tests.fakes.kubernetes.documents import bookmark, line_of, status_of
from tests.fakes.kubernetes.objects import Manifest
from tests.fakes.kubernetes.store import target_of
from tests.fakes.kubernetes.wire import END, Fault, KubeWire, Seen

_TURNS_OF_AN_ACCEPT = 5


class FakeKubeApi(KubeWire):
    """Serves pods, InferencePools and Leases on loopback; one for each test."""

    def __init__(self) -> None:
        super().__init__()
        self.tls: ssl.SSLContext | None = None
        """In force from the next start on."""
        self._runner: web.AppRunner | None = None
        self.port = 0

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
        client = plain_client(self.url, token)
        try:
            yield client
        finally:
            await client.close()

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
        self.inject(END)

    def inject(self, line: bytes) -> None:
        """Send a line, or what should have been one, on all watches."""
        for watcher in self._watchers:
            watcher.lines.put_nowait(line)

    def send_bookmarks(self) -> None:
        """Tell all watches that want it how far they are."""
        for watcher in self._watchers:
            if watcher.bookmarks:
                watcher.lines.put_nowait(bookmark(watcher.target, self.store.revision))

    def send_error(self, code: int, reason: str) -> None:
        """End all watches by an error event."""
        self.inject(line_of("ERROR", status_of(code, reason, "as the test wants it")))
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
            document = status_of(status, reason, "as the test wants it")
            return web.json_response(document, status=status, headers=headers)

        self._faults.append(Fault(claim, answer, times))

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
