"""Envoy in front of the pickers of a pool in a cluster, model servers, and who runs their pods."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import openai

from epp.standalone.envoy_clusters import Address
from tests.fakes.kubernetes.objects import inference_pool, pod, pod_status
from tests.fakes.metrics.samples import sum_of
from tests.fakes.programs.processes import Picker, PortSource, Simulator
from tests.fakes.programs.program import wait_until
from tests.fakes.programs.stack import PickersBehindEnvoy
from tests.kube.caller import Caller


class ModelServer(Simulator):
    """A simulated model server on an address of loopback, as a pod has an address of its own."""

    def __init__(self, name: str, folder: Path, at: Address) -> None:
        super().__init__(name, folder, ["--host", at.host, "--port", str(at.port)])
        self.at = at

    def requests_served(self) -> int:
        """How many requests it has answered."""
        page = httpx.get(f"http://{self.at}/metrics").text
        return int(sum_of(page, "vllm:request_success_total"))


class Models:
    """One pool and the pods of a namespace, as their owner changes them."""

    def __init__(self, owner: Caller, namespace: str, pool_name: str) -> None:
        self._owner = owner
        self._pool = inference_pool(name=pool_name, namespace=namespace)
        self.namespace = namespace
        self.pool_name = pool_name

    def create_pool(self, *ports: int, **spec: Any) -> None:
        """Create the pool, of pods that are called llama."""
        pool = inference_pool(*ports, name=self.pool_name, namespace=self.namespace, **spec)
        self._owner.create(pool)

    def change_pool(self, **spec: Any) -> None:
        """Merge into the pool's spec."""
        self._owner.patch(self._pool, {"spec": spec})

    def delete_pool(self) -> None:
        """Delete the pool."""
        self._owner.delete(self._pool)

    def add_pod(self, name: str, ip: str, *, app: str = "llama", ready: bool = True) -> None:
        """Create a pod that runs."""
        self._owner.create(pod(name, {"app": app}, namespace=self.namespace))
        self.set_status(name, ip, ready=ready)

    def set_status(self, name: str, ip: str, *, ready: bool = True) -> None:
        """Say where a pod runs, and whether it is ready."""
        status = pod_status(ip, ready=ready)
        self._owner.patch(pod(name, namespace=self.namespace), status, "/status")

    def ask_for_deletion(self, name: str) -> None:
        """Begin the graceful deletion of a pod."""
        self._owner.delete(pod(name, namespace=self.namespace))

    def delete_pod(self, name: str) -> None:
        """Delete a pod as a kubelet does in the end."""
        self._owner.delete(pod(name, namespace=self.namespace), gracePeriodSeconds="0")


class ClusterStack(PickersBehindEnvoy):
    """Envoy in front of pickers that follow a cluster."""

    def __init__(
        self,
        folder: Path,
        ports: PortSource,
        picker_flags: Sequence[str],
        *,
        pickers: int = 1,
        tls: bool = True,
    ) -> None:
        flags = [f"--secure-serving={str(tls).lower()}"]
        made = [
            Picker(f"epp-{number}", folder, picker_flags, ports, flags)
            for number in range(1, pickers + 1)
        ]
        super().__init__(folder, ports, made, fail_open=False, epp_tls=tls)
        self.client = openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0)

    def _wait_for_pickers(self) -> None:
        wait_until(self._is_served, "a picker is ready", self.picker)

    def _wait_for_health(self) -> None:
        wait_until(lambda: len(self.gateway.checked_pickers()) == 1, "a healthy picker")

    def _is_served(self) -> bool:
        return any(
            picker.is_running and pool_of(picker).get("ready", False) for picker in self.pickers
        )

    def _end(self) -> None:
        self.client.close()
        super()._end()


def pool_of(picker: Picker) -> dict[str, Any]:
    """The pool as the picker sees it; empty while it does not listen."""
    try:
        seen: dict[str, Any] = httpx.get(f"http://{picker.admin}/pool").json()
    except httpx.TransportError:
        return {}
    return seen


def endpoints_of(picker: Picker) -> set[str]:
    """Addresses that the picker may choose."""
    return {endpoint["address"] for endpoint in pool_of(picker).get("endpoints", [])}
