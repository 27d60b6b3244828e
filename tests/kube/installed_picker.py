"""A picker started as its manifests say, with the rights they give it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import grpc
import httpx
from grpc_health.v1 import health_pb2

from epp.standalone.envoy_clusters import Address
from tests.fakes.programs.processes import EPP, LOOPBACK, PortSource
from tests.fakes.programs.program import Program, wait_until
from tests.kube.installation import (
    Manifests,
    environment_of,
    flags_of,
    pod_spec_of,
    the_one,
)

_CONFIG_FOLDER = "/config/"


class InstalledPicker(Program):
    """One replica of the Deployment: its arguments, files and rights. Ports are a test's own."""

    def __init__(
        self,
        name: str,
        folder: Path,
        ports: PortSource,
        manifests: Manifests,
        namespace: str,
        kubeconfig: Path,
    ) -> None:
        (self._container,) = pod_spec_of(manifests)["containers"]
        self._health = Address(LOOPBACK, ports.take())
        self.metrics = Address(LOOPBACK, metrics := ports.take())
        self._ext_proc, self._admin = (Address(LOOPBACK, ports.take()) for _ in "ea")
        files = _files(manifests, folder)
        flags = [flag.replace(_CONFIG_FOLDER, f"{files}/") for flag in flags_of(manifests)]
        environment = environment_of(manifests, namespace)
        flags += [f"--kubeconfig={kubeconfig}", f"--bind-address={LOOPBACK}"]
        flags += [f"--grpc-port={self._ext_proc.port}", f"--admin-port={self._admin.port}"]
        flags += [f"--grpc-health-port={self._health.port}", f"--metrics-port={metrics}"]
        # A drain waits for gateways to notice, and there is none.
        self._flags = [*flags, "--drain-timeout=0"]
        self._epp = ["env", *(f"{key}={value}" for key, value in environment.items()), *EPP]
        super().__init__(name, [*self._epp, "serve", *self._flags], folder / f"{name}.log")

    def passes(self, probe: str) -> bool:
        """What the kubelet finds with one of the container's probes."""
        asked: dict[str, Any] = self._container[f"{probe}Probe"]["grpc"]
        with grpc.insecure_channel(str(self._health)) as channel:
            check = channel.unary_unary(
                "/grpc.health.v1.Health/Check",
                health_pb2.HealthCheckRequest.SerializeToString,
                health_pb2.HealthCheckResponse.FromString,
            )
            try:
                answer = check(health_pb2.HealthCheckRequest(service=asked["service"]), timeout=5)
            except grpc.RpcError:
                return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    def wait_until_ready(self) -> None:
        """Wait for its readiness probe."""
        wait_until(lambda: self.passes("readiness"), "readiness", self)

    def examine(self) -> list[dict[str, str]]:
        """What `epp doctor` finds in the pod, with the flags of the container."""
        command = [*self._epp, "doctor", "--output=json", *self._flags]
        command += [f"--grpc-address={self._ext_proc}", f"--admin={self._admin}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stdout, done.stderr
        findings: list[dict[str, str]] = json.loads(done.stdout)["findings"]
        return findings

    def scrape(self, token: str = "") -> httpx.Response:
        """Read its metrics, with a token or without."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.get(f"http://{self.metrics}/metrics", headers=headers)


def _files(manifests: Manifests, folder: Path) -> Path:
    """What the pod finds of the ConfigMap."""
    files = folder / "config"
    files.mkdir(exist_ok=True)
    if any(each["kind"] == "ConfigMap" for each in manifests):
        for name, text in the_one(manifests, "ConfigMap")["data"].items():
            (files / name).write_text(text)
    return files
