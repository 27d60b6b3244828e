"""What the process wants of a Kubernetes API server: the pool, and a leader among replicas."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import structlog

from epp.app.options import ServeOptions
from epp.app.source import Source
from epp.datastore.datastore import Datastore
from epp.framework.data_layer import KubernetesEvent, KubernetesExtractor, KubernetesSource
from epp.kubernetes.access_reviews import KubeAccessReviews
from epp.kubernetes.client import KubeClient
from epp.kubernetes.events import PoolEventWriter
from epp.kubernetes.leader_election import ElectionTiming, LeaderElector, lease_name
from epp.kubernetes.lease_client import KubeLease
from epp.kubernetes.object_feed import ObjectFeed
from epp.kubernetes.objective_watch import ObjectiveWatch
from epp.kubernetes.observer import KubernetesObserver
from epp.kubernetes.pool_source import KubernetesPoolSource, SelectorSource
from epp.kubernetes.reflector_context import ReflectorContext
from epp.support.fault_log import FaultLog
from epp.support.plugin_faults import PLUGIN_FAULTS

log = structlog.get_logger(__name__)


class Cluster:
    """One API server, and what the options say of it."""

    def __init__(self, client: KubeClient, options: ServeOptions) -> None:
        self._client = client
        self._options = options
        self._pool = options.pool
        self._rng = random.Random(options.seed)
        self._pool_source: KubernetesPoolSource | None = None

    @classmethod
    async def connect(cls, options: ServeOptions) -> Self:
        """Find the API server, which need not answer yet; raises `ConfigError` if none is known."""
        client = await KubeClient.connect(options.kubeconfig, options.kube_context or None)
        return cls(client, options)

    def source(self, datastore: Datastore, observer: KubernetesObserver) -> Source:
        """What keeps the datastore in step with the pool, or with the selected pods."""
        pool = self._pool
        if pool.name:
            self._pool_source = KubernetesPoolSource(
                self._context(observer),
                pool_name=pool.name,
                namespace=pool.namespace,
                datastore=datastore,
            )
            return self._pool_source
        return SelectorSource(
            self._context(observer),
            pool_name=pool.name_in_cluster,
            selector=pool.selector,
            target_ports=pool.target_ports,
            namespace=pool.namespace,
            datastore=datastore,
        )

    def objectives(
        self, datastore: Datastore, observer: KubernetesObserver
    ) -> ObjectiveWatch | None:
        """What ranks the requests of the pool; None with a selector, where there is no pool."""
        if not self._pool.name:
            return None
        return ObjectiveWatch(
            self._context(observer),
            pool_name=self._pool.name,
            namespace=self._pool.namespace,
            datastore=datastore,
        )

    def object_feed(
        self,
        source: KubernetesSource,
        extractors: Sequence[KubernetesExtractor],
        observer: KubernetesObserver,
    ) -> ObjectFeed:
        """What tells the extractors of a source about objects of its kind."""

        faults = FaultLog("plugin failed", log.warning)

        def tell(obj: Mapping[str, Any], deleted: bool) -> None:
            event = KubernetesEvent(deleted=deleted, object=obj)
            for extractor in extractors:
                try:
                    extractor.extract_object(event)
                except PLUGIN_FAULTS as error:  # it costs this change only
                    faults.tell(
                        extractor.name,
                        error,
                        extension_point="Extractor",
                        plugin=extractor.name,
                        type=extractor.type,
                    )

        return ObjectFeed(
            self._context(observer),
            group=source.group,
            version=source.version,
            kind=source.kind,
            namespace=self._pool.namespace,
            tell=tell,
        )

    @property
    def pool_rejection(self) -> str | None:
        """Why the pool as it is now is not in force, if it is not valid."""
        return None if self._pool_source is None else self._pool_source.rejection

    def event_writer(self, counted: Callable[[str], None]) -> PoolEventWriter:
        """What writes Events about the pool."""
        pool = self._pool
        return PoolEventWriter(
            self._client, namespace=pool.namespace, pool_name=pool.name, counted=counted
        )

    def access_reviews(self) -> KubeAccessReviews:
        """Who is asked whose token it is, and what they may do."""
        return KubeAccessReviews(self._client)

    def elector(self, on_change: Callable[[bool], None], timing: ElectionTiming) -> LeaderElector:
        """A candidate for the lease of this pool's pickers."""
        pool = self._pool
        name = lease_name(pool.namespace, pool.name_in_cluster)
        lease = KubeLease(self._client, namespace=pool.namespace, name=name)
        return LeaderElector(lease, on_change=on_change, timing=timing, rng=self._rng)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    def _context(self, observer: KubernetesObserver) -> ReflectorContext:
        return ReflectorContext(client=self._client, observer=observer, rng=self._rng)
