"""Envoy, Endpoint Pickers and simulated model servers, each a process of its own."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from epp.standalone.envoy_binary import envoy_binary
from epp.standalone.envoy_clusters import Address
from epp.standalone.ports import FreePorts
from epp.standalone.tether import tethered
from tests.fakes.metrics.samples import sum_of
from tests.fakes.pickers.chosen_transport import TRANSPORT
from tests.fakes.programs.program import Program, wait_until
from tests.fakes.transport.raw_http import connected

LOOPBACK = "127.0.0.1"
MODEL = "simulated-model"
EPP = [sys.executable, "-m", "epp"]


class PortSource:
    """Free ports below those the kernel gives to outgoing connections."""

    def __init__(self) -> None:
        self._ports = FreePorts()
        self._next = 12_000 + os.getpid() % 1000 * 20

    def take(self) -> int:
        """A port nobody listens on, never given before, also not by another process that tests."""
        while True:
            port = self._ports.take("a test", self._next)
            self._next = port + 1
            if _reserve(port):
                return port


def _reserve(port: int) -> bool:
    """Whether this process is the first that wants it; what says so to others lasts as long."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mark:
        try:
            mark.bind(("127.0.0.1", port))
        except OSError:
            return False
        mark.detach()
    return True


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
