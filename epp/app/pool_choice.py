"""Where pool and endpoints come from: an InferencePool, a label selector, or a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_TARGET_PORTS = 8

NO_POOL = "no pool is given; use one of --pool-name, --endpoint-selector, --pool-file"

_POD_OF_DEPLOYMENT = re.compile(r"(?P<deployment>.+)-[a-z0-9]+-[a-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolChoice:
    """What the flags say of the pool; exactly one of `name`, `selector` and `file` counts."""

    name: str = ""
    namespace: str = "default"
    selector: str = ""
    target_ports: tuple[int, ...] = ()
    pod_name: str = ""
    file: Path | None = None

    @property
    def is_in_cluster(self) -> bool:
        """Whether an API server has to be asked."""
        return bool(self.name or self.selector)

    @property
    def name_in_cluster(self) -> str:
        """The pool's name; with a selector that of the Deployment this pod belongs to, so that
        its replicas share one."""
        if self.name:
            return self.name
        match = _POD_OF_DEPLOYMENT.fullmatch(self.pod_name)
        return match["deployment"] if match else ""

    def contradictions(self) -> Iterator[str]:
        """Yield what can't hold together, naming the flags."""
        sources = {
            "--pool-name": self.name,
            "--endpoint-selector": self.selector,
            "--pool-file": self.file,
        }
        given = [flag for flag, value in sources.items() if value]
        if not given:
            yield NO_POOL
        if len(given) > 1:
            yield f"{' and '.join(given)} exclude each other; give one of them"
        if self.selector:
            yield from self._selector_contradictions()
        elif self.target_ports:
            yield "--endpoint-target-ports needs --endpoint-selector"
        if len(self.target_ports) > MAX_TARGET_PORTS:
            yield (
                f"--endpoint-target-ports has {len(self.target_ports)} ports;"
                f" allowed: 1 to {MAX_TARGET_PORTS}"
            )

    def _selector_contradictions(self) -> Iterator[str]:
        if not self.target_ports:
            yield f"--endpoint-selector needs --endpoint-target-ports, 1 to {MAX_TARGET_PORTS}"
        if not self.pod_name:
            yield (
                "--endpoint-selector needs the name of this pod, to name the pool after its"
                " Deployment: set POD_NAME from the field metadata.name, or --pod-name"
            )
        elif not self.name_in_cluster:
            yield (
                f"--pod-name {self.pod_name!r} (or POD_NAME) is not the name of a Deployment's"
                " pod; allowed: <deployment>-<hash>-<hash>"
            )
