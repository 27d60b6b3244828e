"""The pods a pool selects, brought into the datastore together with the pool."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from epp.datastore.datastore import Datastore
from epp.datastore.inference_pool import InferencePool
from epp.datastore.pods import Pod
from epp.kubernetes import objects
from epp.kubernetes.port_hints import PortHints
from epp.kubernetes.reflector import Reflector
from epp.kubernetes.reflector_context import ReflectorContext
from epp.kubernetes.store import Store, StoreChange
from epp.support.tasks import TaskOwner, keep_running


class _Feed:
    """One selector's pods, watched by a task of their own."""

    def __init__(self, selector: str, store: Store[Pod]) -> None:
        self.selector = selector
        self.store = store
        self.task: asyncio.Task[Any] | None = None
        self.reflector: Reflector[Pod] | None = None

    def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()


class SelectedPods:
    """Serves one pool and the pods of its selector.

    When the selector changes the old pool and pods serve on until all new pods are known; then
    they change at once.
    """

    def __init__(
        self,
        context: ReflectorContext,
        *,
        namespace: str,
        datastore: Datastore,
    ) -> None:
        self._context = context
        self._namespace = namespace
        self._datastore = datastore
        self._tasks = TaskOwner()
        self._hints = PortHints()
        self._pool: InferencePool | None = None
        self._serving: _Feed | None = None
        self._coming: _Feed | None = None

    @property
    def problem(self) -> str | None:
        """Why the pods can't be followed just now, if they can't."""
        for feed in (self._coming, self._serving):
            if feed is not None and feed.reflector is not None and feed.reflector.problem:
                return feed.reflector.problem
        return None

    async def aclose(self) -> None:
        """End all watches; what is known stays."""
        self._serving = self._coming = None
        await self._tasks.aclose()

    def serve(self, pool: InferencePool, selector: str) -> None:
        """Serve `pool` with the pods that `selector` selects, as soon as these are known."""
        self._pool = pool
        if self._serving is not None and self._serving.selector == selector:
            self._drop_coming()
            self._datastore.set_pool(pool)
            self._hints.look((known.value for known in self._serving.store.objects()), pool)
        elif self._coming is None or self._coming.selector != selector:
            self._drop_coming()
            self._coming = self._start(selector)

    def clear(self) -> None:
        """There is no pool: no endpoints, and not ready.

        What was sent to the pods stays known, for a pool that comes back and selects them.
        """
        self._drop_coming()
        if self._serving is not None:
            self._serving.stop()
            self._serving = None
        self._pool = None
        with self._datastore.batch():
            self._datastore.set_pool(None)
            self._datastore.mark_unsynced()
        self._context.observer.synced("pods", False)

    def _start(self, selector: str) -> _Feed:
        def changed(changes: Sequence[StoreChange[Pod]]) -> None:
            if feed is self._serving:
                self._pass_on(changes)

        feed = _Feed(selector, Store(changed))
        feed.reflector = reflector = Reflector(
            self._context,
            objects.pods(self._namespace, selector),
            feed.store,
            on_synced=lambda: self._take_over(feed),
        )
        feed.task = self._tasks.spawn(keep_running("pods", reflector.run), name="pods")
        return feed

    def _take_over(self, feed: _Feed) -> None:
        if feed is not self._coming or self._pool is None:
            return
        old, self._serving, self._coming = self._serving, feed, None
        with self._datastore.batch():
            self._datastore.set_pool(self._pool)
            self._datastore.set_pods(known.value for known in feed.store.objects())
            self._datastore.mark_synced()
        if old is not None:
            old.stop()
        self._hints.look((known.value for known in feed.store.objects()), self._pool)

    def _pass_on(self, changes: Sequence[StoreChange[Pod]]) -> None:
        with self._datastore.batch():
            for change in changes:
                if change.new is not None:
                    self._datastore.upsert_pod(change.new.value)
                elif change.old is not None:
                    self._datastore.delete_pod(change.old.uid)
        if self._pool is not None:
            self._hints.look((each.new.value for each in changes if each.new), self._pool)

    def _drop_coming(self) -> None:
        if self._coming is not None:
            self._coming.stop()
            self._coming = None
