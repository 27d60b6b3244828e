"""Files of a picker that change all the time: its pool and its configuration."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Sequence
from itertools import count, cycle
from pathlib import Path

from tests.fakes.pool_files import MANIFEST

POOL_SECONDS = 1.0
"""Pause between two versions of the pool file."""
CONFIGURATION_SECONDS = 5.0
BROKEN_EVERY = 15
"""Every so many versions of the pool file one is broken as a whole, ..."""
BAD_ENTRY_EVERY = 10
"""... and every so many one has an entry that is skipped."""
SMALLEST_SHARE = 0.6
"""Of all pods; the others may be away."""

_POOL = f"{MANIFEST}endpoints:\n"

# What is built in, with a prefix index that new prompts fill within seconds: its growth to a
# million entries would hide a leak for an hour.
_CONFIGURATION = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
- type: approx-prefix-cache-producer
  parameters: {{maxIndexEntries: {entries}}}
- type: metrics-data-source
- type: core-metrics-extractor
schedulingProfiles:
- name: default
  plugins:
  - {{pluginRef: queue-scorer, weight: {weight}}}
  - {{pluginRef: kv-cache-utilization-scorer, weight: 2}}
  - {{pluginRef: prefix-cache-scorer, weight: 3}}
dataLayer:
  sources:
  - pluginRef: metrics-data-source
    extractors:
    - pluginRef: core-metrics-extractor
"""
CONFIGURATIONS = (
    _CONFIGURATION.format(entries=16_384, weight=2),
    _CONFIGURATION.format(entries=16_384, weight=1),
    _CONFIGURATION.format(entries=20_000, weight=1),
    _CONFIGURATION.format(entries=20_000, weight="heavy"),
)
"""The first is where it starts and ends; the third makes a new index, the last is refused."""


def pool_text(pods: Sequence[tuple[str, int]]) -> str:
    """A pool file with pods by name and port."""
    entries = [f"- {{name: {name}, address: 127.0.0.1, port: {port}}}\n" for name, port in pods]
    return _POOL + "".join(entries)


class PodChurn:
    """Pods that go, and come back under another name."""

    def __init__(self, ports: Sequence[int], rng: random.Random) -> None:
        self._ports = ports
        self._rng = rng
        self._numbers = count()
        self._present = {port: self._new_name() for port in ports}

    def everyone(self) -> str:
        """The pool file with all pods present."""
        for port in self._ports:
            self._present.setdefault(port, self._new_name())
        return pool_text([(name, port) for port, name in self._present.items()])

    def next(self, version: int) -> str:
        """The pool file after one more change."""
        if version % BROKEN_EVERY == 0:
            return _POOL + "- {name: "
        port = self._rng.choice(self._ports)
        if port not in self._present:
            self._present[port] = self._new_name()
        elif len(self._present) > len(self._ports) * SMALLEST_SHARE:
            del self._present[port]
        pods = [(name, port) for port, name in self._present.items()]
        if version % BAD_ENTRY_EVERY == 0:
            pods.append(("nowhere", 70_000))
        return pool_text(pods)

    def _new_name(self) -> str:
        return f"pod-{next(self._numbers)}"


async def churn_pool(file: Path, pods: PodChurn) -> None:
    """Rewrite the pool file until cancelled."""
    for version in count(1):
        await asyncio.sleep(POOL_SECONDS)
        replace(file, pods.next(version))


async def churn_configuration(file: Path) -> None:
    """Rewrite the configuration file until cancelled."""
    for text in cycle(CONFIGURATIONS[1:] + CONFIGURATIONS[:1]):
        await asyncio.sleep(CONFIGURATION_SECONDS)
        replace(file, text)


def replace(file: Path, text: str) -> None:
    """Put a new version in the file's place at once, as an editor does."""
    new = file.with_suffix(".new")
    new.write_text(text)
    os.replace(new, file)
