"""InferenceObjectives, wherever they are served: both API groups, each of them optional."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import structlog

from epp.datastore.datastore import Datastore
from epp.datastore.inference_objective import GROUPS, InferenceObjective
from epp.kubernetes import objects
from epp.kubernetes.reflector import Reflector
from epp.kubernetes.reflector_context import ReflectorContext
from epp.kubernetes.store import Store
from epp.support.tasks import keep_running

log = structlog.get_logger(__name__)

LONGEST_PAUSE_SECONDS = 60.0
"""Between two looks at a group that is not served, or not allowed: it may come later."""


class ObjectiveWatch:
    """Keeps the datastore's priorities in step with the objectives of one pool.

    What can't be had changes nothing else: neither readiness nor the pool wait for it.
    """

    def __init__(
        self,
        context: ReflectorContext,
        *,
        pool_name: str,
        namespace: str,
        datastore: Datastore,
    ) -> None:
        self._pool_name = pool_name
        self._datastore = datastore
        self._told_of_both = False
        self._stores = [Store[InferenceObjective](lambda _: self._changed()) for _ in GROUPS]
        settings = context.settings
        patient = replace(
            settings, longest_pause=max(settings.longest_pause, LONGEST_PAUSE_SECONDS)
        )
        self._reflectors = [
            Reflector(
                replace(context, settings=patient),
                objects.inference_objectives(namespace, group),
                store,
            )
            for group, store in zip(GROUPS, self._stores, strict=True)
        ]

    async def run(self) -> None:
        """Follow the objectives for ever."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self._reflectors:
                tasks.create_task(keep_running("inferenceobjectives", reflector.run))

    def _changed(self) -> None:
        priorities: dict[str, int] = {}
        for store in self._stores:
            for known in store.objects():
                if known.value.is_about(self._pool_name):
                    priorities.setdefault(known.value.name, known.value.priority)
        self._datastore.priorities = priorities
        if all(len(store) for store in self._stores) and not self._told_of_both:
            self._told_of_both = True
            log.warning(
                "InferenceObjectives in both API groups; of equal names the first group counts",
                groups=list(GROUPS),
            )
