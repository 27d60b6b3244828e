"""A real Envoy, Endpoint Pickers and simulated model servers, each a process of its own."""

from __future__ import annotations

import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import httpx
import yaml

from epp.app.flag_kinds import FailureModeName
from epp.standalone.envoy_binary import envoy_binary
from epp.standalone.envoy_clusters import Address
from epp.standalone.envoy_config import MEBIBYTE, EnvoySettings, envoy_bootstrap
from epp.standalone.pool import POOL_NAME, ModelServer, pool_document
from epp.standalone.ports import FreePorts
from epp.standalone.tether import tethered
from tests.fakes.programs import Program, wait_until
from tests.fakes.raw_http import connected
from tests.fakes.transport import TRANSPORT

LOOPBACK = "127.0.0.1"
MODEL = "simulated-model"
EPP = [sys.executable, "-m", "epp"]


class PortSource:
    """Free ports below those the kernel gives to outgoing connections."""

    def __init__(self) -> None:
        self._ports = FreePorts()
        self._next = 12_000 + os.getpid() % 1000 * 20

    def take(self) -> int:
        """A port nobody listens on, never given before."""
        self._next = self._ports.take("a test", self._next) + 1
        return self._next - 1


class Simulator(Program):
    """A simulated model server."""

    def __init__(self, name: str, folder: Path, flags: Sequence[str] = ()) -> None:
        command = [*EPP, "simulator", "--exit-with-parent", "--name", name, "--port", "0", *flags]
        super().__init__(name, command, folder / f"{name}.log")

    def address(self) -> Address:
        """Where it listens, once it does."""
        line = self.wait_for_line("simulator ready on ")
        host, _, port = line.rpartition("//")[2].rpartition(":")
        return Address(host, int(port))

    @property
    def url(self) -> str:
        return f"http://{self.address()}"

    def value_of(self, name: str) -> float:
        """The sum of all series called `name`, as the server itself reports them."""
        return sum_of(httpx.get(f"{self.url}/metrics").text, name)

    def fail(self, **failures: object) -> None:
        """Be broken in these ways from now on; in no way without any."""
        httpx.post(f"{self.url}/simulator/failures", json=failures).raise_for_status()

    @contextmanager
    def load(self, requests: int, **fields: object) -> Iterator[None]:
        """So many requests of somebody else, sent here directly, that last as long as the block."""
        body = json.dumps({"model": MODEL, "prompt": "Hello", "stream": True, **fields}).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nhost: test\r\ncontent-length: {len(body)}\r\n"
        with ExitStack() as connections:
            for _ in range(requests):
                connection = connections.enter_context(connected(self.url))
                connection.sendall(head.encode() + b"content-type: application/json\r\n\r\n" + body)
            yield


class Picker(Program):
    """`epp serve`, for the pool that flags name."""

    def __init__(
        self,
        name: str,
        folder: Path,
        pool: Sequence[str],
        ports: PortSource,
        flags: Sequence[str] = (),
    ) -> None:
        self.ext_proc = Address(LOOPBACK, ports.take())
        self.health = Address(LOOPBACK, ports.take())
        self.metrics_url = f"http://{LOOPBACK}:{(metrics := ports.take())}/metrics"
        self.admin = Address(LOOPBACK, ports.take())
        command = [*EPP, "serve", *pool, "--secure-serving=false", f"--transport={TRANSPORT}"]
        command += [f"--bind-address={LOOPBACK}", f"--grpc-port={self.ext_proc.port}"]
        command += [f"--grpc-health-port={self.health.port}", f"--metrics-port={metrics}"]
        command += [f"--admin-port={self.admin.port}", "--drain-timeout=0s", "--shutdown-grace=1s"]
        command += ["--served-endpoint-header", "--request-log", *flags]
        super().__init__(name, command, folder / f"{name}.log")

    def metrics(self) -> str:
        """The page Prometheus reads."""
        return httpx.get(self.metrics_url).text

    def value_of(self, name: str) -> float:
        """The sum of all series called `name`, whatever their labels."""
        return sum_of(self.metrics(), name)

    def wait_for_value(self, name: str, value: float) -> None:
        """Wait until this is the sum of all series called `name`."""
        wait_until(lambda: self.value_of(name) == value, f"{name} {value:g}", self)

    def pool_page(self) -> str:
        """What `epp pool show` reads."""
        return httpx.get(f"http://{self.admin}/pool").text

    def endpoint(self, address: Address) -> dict[str, Any]:
        """What it knows of an endpoint of its pool."""
        endpoints = json.loads(self.pool_page())["endpoints"]
        (endpoint,) = [each for each in endpoints if each["address"] == str(address)]
        return dict(endpoint)

    def wait_until_heard_of(self, address: Address) -> None:
        """Wait until it has read an endpoint's metrics once."""
        wait_until(
            lambda: self.endpoint(address)["metricsAgeSeconds"] is not None,
            f"metrics of {address}",
            self,
        )

    def wait_until_known(self, address: Address, **facts: object) -> None:
        """Wait until this is what it knows of an endpoint."""
        wait_until(
            lambda: facts.items() <= self.endpoint(address).items(), f"{facts} of {address}", self
        )


class Gateway(Program):
    """Envoy."""

    def __init__(
        self,
        name: str,
        folder: Path,
        bootstrap: Sequence[str],
        *,
        listener: Address,
        admin: Address,
    ) -> None:
        """`bootstrap`: the flags that say what it is, with these addresses."""
        self.url = f"http://{listener}"
        self.admin_url = f"http://{admin}"
        command = [str(envoy_binary()), *bootstrap]
        command += ["--concurrency", "1", "--disable-hot-restart", "--log-level", "warning"]
        command += ["--file-flush-interval-msec", "50"]
        super().__init__(name, tethered(command), folder / f"{name}.log")

    def is_live(self) -> bool:
        """Whether it has started, first health checks included."""
        try:
            return httpx.get(f"{self.admin_url}/ready").status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def stats(self, prefix: str = "") -> dict[str, int]:
        """Counters and gauges whose names begin with `prefix`."""
        page = httpx.get(f"{self.admin_url}/stats", params={"format": "json"}).json()
        return {
            entry["name"]: entry["value"]
            for entry in page["stats"]
            if entry.get("name", "").startswith(prefix) and "value" in entry
        }

    def healthy_pickers(self) -> int:
        """Pickers that pass Envoy's health check."""
        return self.stats("cluster.epp.membership_healthy")["cluster.epp.membership_healthy"]

    def checked_pickers(self) -> set[Address]:
        """Which pickers pass it."""
        page = httpx.get(f"{self.admin_url}/clusters", params={"format": "json"}).json()
        (hosts,) = [
            each["host_statuses"] for each in page["cluster_statuses"] if each["name"] == "epp"
        ]
        return {
            Address(socket["address"], socket["port_value"])
            for host in hosts
            if not host["health_status"].get("failed_active_health_check")
            and (socket := host["address"]["socket_address"])
        }


class PickersBehindEnvoy(ABC):
    """Pickers, and Envoy in front of them. A context that ends them all."""

    def __init__(
        self, folder: Path, ports: PortSource, pickers: Sequence[Picker], **settings: Any
    ) -> None:
        """`settings`: those of Envoy that are not about addresses of these processes."""
        self.pickers = list(pickers)
        listener, admin = Address(LOOPBACK, ports.take()), Address(LOOPBACK, ports.take())
        of_envoy = EnvoySettings(
            listener=listener,
            admin=admin,
            pickers=tuple(picker.ext_proc for picker in self.pickers),
            **settings,
        )
        bootstrap = ["--config-yaml", json.dumps(envoy_bootstrap(of_envoy))]
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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


def sum_of(page: str, name: str) -> float:
    """The sum of all series called `name` on a metrics page."""
    return sum(
        float(line.rpartition(" ")[2])
        for line in page.splitlines()
        if line.startswith((f"{name} ", f"{name}{{"))
    )


MakeStack = Callable[..., Stack]
