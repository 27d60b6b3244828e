"""A real Envoy in front of Endpoint Pickers in front of simulated model servers."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import yaml

from epp.app.flag_kinds import FailureModeName
from epp.standalone.envoy_clusters import Address
from epp.standalone.envoy_config import MEBIBYTE, EnvoySettings, envoy_bootstrap
from epp.standalone.pool import POOL_NAME, ModelServer, pool_document
from tests.fakes.programs.processes import LOOPBACK, Gateway, Picker, PortSource
from tests.fakes.programs.program import wait_until


class PickersBehindEnvoy(ABC):
    """Pickers, and Envoy in front of them. A context that ends them all."""

    def __init__(
        self,
        folder: Path,
        ports: PortSource,
        pickers: Sequence[Picker],
        runtime: Mapping[str, Any] = MappingProxyType({}),
        **settings: Any,
    ) -> None:
        """`settings`: those of Envoy that are not about addresses of these processes; `runtime`
        are Envoy's runtime values."""
        self.pickers = list(pickers)
        listener, admin = Address(LOOPBACK, ports.take()), Address(LOOPBACK, ports.take())
        of_envoy = EnvoySettings(
            listener=listener,
            admin=admin,
            pickers=tuple(picker.ext_proc for picker in self.pickers),
            **settings,
        )
        layer = {"name": "static", "static_layer": dict(runtime)}
        document = envoy_bootstrap(of_envoy) | {"layered_runtime": {"layers": [layer]}}
        bootstrap = ["--config-yaml", json.dumps(document)]
        self.gateway = Gateway("envoy", folder, bootstrap, listener=listener, admin=admin)

    @property
    def url(self) -> str:
        return self.gateway.url

    @property
    def picker(self) -> Picker:
        """The first picker."""
        return self.pickers[0]

    def __enter__(self) -> Self:
        try:
            for picker in self.pickers:
                picker.start()
            # Envoy tries again only a second after a first health check that failed.
            self._wait_for_pickers()
            self.gateway.start()
            wait_until(self.gateway.is_live, "Envoy", self.gateway)
            self._wait_for_health()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @abstractmethod
    def _wait_for_pickers(self) -> None:
        """Wait until pickers pass health checks, as many as will."""

    @abstractmethod
    def _wait_for_health(self) -> None:
        """Wait until Envoy has found them healthy."""

    def _end(self) -> None:
        for program in (self.gateway, *self.pickers):
            program.kill()


class Stack(PickersBehindEnvoy):
    """Envoy in front of pickers in front of model servers."""

    def __init__(
        self,
        folder: Path,
        ports: PortSource,
        servers: Sequence[Address],
        *,
        fail_open: bool,
        pickers: int = 1,
        picker_flags: Sequence[str] = (),
        max_request_body_bytes: int = 64 * MEBIBYTE,
        pool: Sequence[Address] | None = None,
        has_pool_file: bool = True,
        response_bodies: bool = True,
        tls: bool = False,
        runtime: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """`pool`: the endpoints to begin with, where they are not all of `servers`.

        Without a pool file, flags or configuration have to say where endpoints are.
        `tls` is for the way from Envoy to the pickers.
        """
        self.servers = tuple(servers)
        self.fail_open = fail_open
        self.pool_file = folder / "pool.yaml"
        self.access_log = folder / "access.log"
        self.write_pool(servers if pool is None else pool, fail_open=fail_open)
        pool_flags = [f"--pool-file={self.pool_file}"] if has_pool_file else []
        security = ["--secure-serving"] if tls else []
        made = [
            Picker(f"epp-{number}", folder, pool_flags, ports, [*security, *picker_flags])
            for number in range(1, pickers + 1)
        ]
        super().__init__(
            folder,
            ports,
            made,
            endpoints=self.servers,
            fail_open=fail_open,
            access_log=str(self.access_log),
            max_request_body_bytes=max_request_body_bytes,
            response_bodies=response_bodies,
            epp_tls=tls,
            runtime=runtime,
        )

    def _wait_for_pickers(self) -> None:
        for picker in self.pickers:
            picker.wait_for_line('"serving"')

    def _wait_for_health(self) -> None:
        self.wait_healthy(len(self.pickers))

    def wait_healthy(self, pickers: int) -> None:
        """Wait until this many pickers pass Envoy's health check."""
        wait_until(
            lambda: self.gateway.healthy_pickers() == pickers,
            f"{pickers} healthy pickers",
        )

    def write_pool(
        self,
        servers: Sequence[Address],
        *,
        fail_open: bool,
        priorities: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Put another pool in place of the one that is in force; it may be empty.

        `priorities` are those of InferenceObjectives, by name.
        """
        named = [
            ModelServer(name=f"server-{number}", address=address)
            for number, address in enumerate(servers or self.servers, 1)
        ]
        mode: FailureModeName = "FailOpen" if fail_open else "FailClose"
        pool, entries = yaml.safe_load_all(pool_document(named, mode))
        if not servers:
            entries["endpoints"] = []
        objectives = [_objective(*each) for each in priorities.items()]
        new = self.pool_file.with_suffix(".new")
        new.write_text(yaml.safe_dump_all([pool, *objectives, entries]))
        new.replace(self.pool_file)


def _objective(name: str, priority: int) -> dict[str, Any]:
    return {
        "apiVersion": "llm-d.ai/v1alpha2",
        "kind": "InferenceObjective",
        "metadata": {"name": name},
        "spec": {"poolRef": {"name": POOL_NAME}, "priority": priority},
    }


MakeStack = Callable[..., Stack]
