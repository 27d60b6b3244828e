"""What reflectors share: whom they ask, whom they tell, and how patient they are."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from epp.kubernetes.client import KubeClient
from epp.kubernetes.observer import KubernetesObserver


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectorSettings:
    """Times are in seconds. The defaults suit a cluster; tests are less patient."""

    page_size: int = 500
    connect_timeout: float = 5.0
    response_timeout: float = 30.0
    """From a request to the headers of its answer."""
    list_read_timeout: float = 30.0
    """Longest pause inside of an answer."""
    page_timeout: float = 60.0
    """Longest time for all of it."""
    watch_seconds: tuple[float, float] = (120.0, 180.0)
    """A watch ends by itself after a random time between these two."""
    watch_grace: float = 15.0
    """What it may be late before it counts as frozen."""
    initial_events_timeout: float = 10.0
    """Longest pause in the initial events of a server that never sent their end."""
    silent_after: float = 60.0
    """A stream that lived as long and told nothing is not believed."""
    shortest_stream: float = 1.0
    """An empty stream that ended before is a failure."""
    resync_interval: float = 1800.0
    """After it everything is asked for anew, give or take a fifth; 0: never."""
    relist_spread: float = 1.0
    """After a restart of the API server its clients relist at a random time within this one."""
    first_pause: float = 0.8
    longest_pause: float = 30.0
    pause_reset_after: float = 120.0
    longest_retry_after: float = 60.0
    max_line_bytes: int = 16 << 20
    max_objects: int = 200_000
    """Of one resource; clusters are made for 150,000 pods."""
    max_pages: int = 2_000
    """Of one list: a page may have fewer objects than are asked for, or none."""
    turn_items: int = 64
    """How many objects are taken in before others have a turn on the event loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectorContext:
    """What all that follows one API server has in common."""

    client: KubeClient
    observer: KubernetesObserver
    rng: random.Random
    settings: ReflectorSettings = ReflectorSettings()
    now: Callable[[], float] = time.monotonic
