"""Keeps the datastore in step with a cluster: with an InferencePool, or with a selector alone."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence

import structlog

from epp.datastore.datastore import Datastore
from epp.datastore.inference_pool import InferencePool, parse_inference_pool
from epp.datastore.manifest_errors import value_text
from epp.framework.errors import ConfigError
from epp.kubernetes import objects
from epp.kubernetes.objects import PoolDocument
from epp.kubernetes.reflector import Reflector
from epp.kubernetes.reflector_context import ReflectorContext
from epp.kubernetes.selected_pods import SelectedPods
from epp.kubernetes.store import Store, StoreChange
from epp.support.tasks import keep_running

log = structlog.get_logger(__name__)

_REMIND_AFTER_SECONDS = 60.0
_LABEL_KEY = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


class KubernetesPoolSource:
    """Follows one InferencePool and the pods it selects."""

    def __init__(
        self,
        context: ReflectorContext,
        *,
        pool_name: str,
        namespace: str,
        datastore: Datastore,
    ) -> None:
        self._namespace = namespace
        self._name = f"{namespace}/{pool_name}"
        self._observer = context.observer
        self._pods = SelectedPods(context, namespace=namespace, datastore=datastore)
        self._pools = Reflector(
            context,
            objects.inference_pools(namespace, pool_name),
            Store(self._pool_changed),
            on_synced=self._tell_missing,
        )
        self._document: PoolDocument | None = None
        self._problem: str | None = None

    @property
    def problem(self) -> str | None:
        """What is wrong with the pool, or keeps it and its pods from being followed."""
        if self._problem is None and self._pools.synced and self._document is None:
            return self._pools.problem or f"InferencePool {self._name} does not exist"
        return self._problem or self._pools.problem or self._pods.problem

    @property
    def rejection(self) -> str | None:
        """Why the pool as it is now is not in force, if it is not valid."""
        return self._problem

    async def run(self) -> None:
        """Follow the cluster for ever."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(keep_running("inferencepools", self._pools.run))
                tasks.create_task(self._remind(), name="missing pool")
        finally:
            await self._pods.aclose()

    def _pool_changed(self, changes: Sequence[StoreChange[PoolDocument]]) -> None:
        # Only where they lead to: a pool that was replaced by another at once leaves no gap.
        new = changes[-1].new
        self._document = None if new is None or new.value.is_terminating else new.value
        if self._document is None:
            self._problem = None
            log.warning("InferencePool is gone", pool=self._name)
            self._pods.clear()
            return
        try:
            pool = parse_inference_pool(self._document.document, default_namespace=self._namespace)
            selector = equality_selector(pool.match_labels)
        except ConfigError as error:
            self._keep_last(str(error))
            return
        if self._problem is not None:
            log.info("InferencePool is valid again", pool=self._name)
        self._problem = None
        self._pods.serve(pool, selector)

    def _keep_last(self, problem: str) -> None:
        self._observer.pool_rejected()
        if problem != self._problem:
            log.error(
                "InferencePool is not valid, the last good one stays",
                pool=self._name,
                problem=problem,
            )
        self._problem = problem

    async def _remind(self) -> None:
        while True:
            await asyncio.sleep(_REMIND_AFTER_SECONDS)
            self._tell_missing()

    def _tell_missing(self) -> None:
        # Of what happened since the watch broke off, nothing is known.
        if self._pools.synced and self._document is None and self._pools.problem is None:
            log.warning("InferencePool does not exist, waiting for it", pool=self._name)


class SelectorSource:
    """Follows the pods of a selector, without an InferencePool."""

    def __init__(
        self,
        context: ReflectorContext,
        *,
        selector: str,
        target_ports: Sequence[int],
        namespace: str,
        pool_name: str,
        datastore: Datastore,
    ) -> None:
        self._selector = selector
        self._pool = InferencePool(
            name=pool_name, namespace=namespace, target_ports=tuple(target_ports)
        )
        self._pods = SelectedPods(context, namespace=namespace, datastore=datastore)

    @property
    def problem(self) -> str | None:
        """What keeps the pods from being followed."""
        return self._pods.problem

    async def run(self) -> None:
        """Follow the cluster for ever."""
        self._pods.serve(self._pool, self._selector)
        try:
            await asyncio.Event().wait()
        finally:
            await self._pods.aclose()


def equality_selector(match_labels: Mapping[str, str]) -> str:
    """The labels as the API server takes them; raises `ConfigError` for a key that is none."""
    for key in match_labels:
        if not _LABEL_KEY.fullmatch(key):
            raise ConfigError(
                f"spec.selector.matchLabels: key {value_text(key)} is not allowed; a label key"
            )
    return ",".join(f"{key}={value}" for key, value in sorted(match_labels.items()))
