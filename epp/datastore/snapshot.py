"""What requests see of the pool at one moment, and what distinguishes one moment from the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from epp.datastore.inference_pool import InferencePool
from epp.framework.endpoint import Endpoint


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """The pool at one moment. Never changes; readers keep it as long as they like."""

    pool: InferencePool | None = None
    synced: bool = False
    """Whether the source of pods has told everything it knows at least once."""
    is_pool_gone: bool = False
    """Whether there was a pool and it was deleted: not synced, and nothing to wait for."""
    endpoints: tuple[Endpoint, ...] = ()
    """Ordered by namespace, pod name and rank."""
    by_address: Mapping[str, Endpoint] = field(default_factory=dict)
    by_ip: Mapping[str, tuple[Endpoint, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Change:
    """What distinguishes a snapshot from the one before it."""

    old: Snapshot
    new: Snapshot
    added: tuple[Endpoint, ...]
    removed: tuple[Endpoint, ...]
    replaced: tuple[Endpoint, ...]
    """Known endpoints with other metadata: new objects with the load of the old ones."""
