"""The overlay with Envoy in the picker's pod, in use: its bootstrap, arguments and rights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from epp.standalone.envoy_clusters import Address
from tests.fakes.kubernetes.objects import pod, pod_status
from tests.fakes.programs.processes import LOOPBACK, MODEL, Gateway, Picker, PortSource, Simulator
from tests.fakes.programs.program import wait_until
from tests.kube.caller import Caller
from tests.kube.harness import ControlPlane
from tests.kube.installation import Manifests, flags_of, install_manifests, rendered

pytestmark = pytest.mark.slow

POD_NAME = "epp-6f7c9d8b5-x2x4z"


@pytest.fixture
def ports() -> PortSource:
    return PortSource()


@pytest.fixture
def model_server(admin: Caller, namespace: str, tmp_path: Path) -> Iterator[Simulator]:
    """A model server that is a pod with the label the overlay selects by."""
    server = Simulator("model-server", tmp_path)
    server.start()
    running = pod("model-server-0", {"app": "model-server"}, namespace=namespace)
    admin.create(running)
    admin.patch(running, pod_status(server.address().host), "/status")
    yield server
    server.kill()


@pytest.fixture
def manifests(namespace: str, tmp_path: Path) -> Manifests:
    return rendered("overlays/standalone-sidecar", namespace, tmp_path)


@pytest.fixture
def picker(
    admin: Caller,
    control_plane: ControlPlane,
    namespace: str,
    tmp_path: Path,
    manifests: Manifests,
    model_server: Simulator,
    ports: PortSource,
) -> Iterator[Picker]:
    account = install_manifests(manifests, admin, control_plane, tmp_path)
    shipped = [
        f"--endpoint-target-ports={model_server.address().port}"
        if flag.startswith("--endpoint-target-ports=")
        else flag
        for flag in flags_of(manifests)
    ]
    where = [f"--kubeconfig={control_plane.kubeconfig(account.token())}"]
    where += [f"--pool-namespace={namespace}", f"--pod-name={POD_NAME}"]
    process = Picker("epp", tmp_path, [*shipped, *where], ports)
    process.start()
    yield process
    process.kill()


@pytest.fixture
def envoy(
    manifests: Manifests, picker: Picker, ports: PortSource, tmp_path: Path
) -> Iterator[Gateway]:
    (document,) = [each for each in manifests if each["kind"] == "ConfigMap"]
    bootstrap = yaml.safe_load(document["data"]["envoy.yaml"])
    listener, admin = (Address(LOOPBACK, ports.take()) for _ in "la")
    (inference,) = bootstrap["static_resources"]["listeners"]
    (epp,) = [each for each in bootstrap["static_resources"]["clusters"] if each["name"] == "epp"]
    (group,) = epp["load_assignment"]["endpoints"]
    (asked,) = group["lb_endpoints"]
    move(inference["address"], listener)
    move(bootstrap["admin"]["address"], admin)
    move(asked["endpoint"]["address"], picker.ext_proc)
    file = tmp_path / "moved.yaml"
    file.write_text(yaml.safe_dump(bootstrap))
    process = Gateway("envoy", tmp_path, ["-c", str(file)], listener=listener, admin=admin)
    process.start()
    yield process
    process.kill()


def move(address: dict[str, Any], to: Address) -> None:
    """A pod has its ports to itself, a test has not."""
    address["socket_address"] |= {"address": to.host, "port_value": to.port}


def ask(envoy: Gateway) -> httpx.Response:
    body = {"model": MODEL, "prompt": "Hello", "max_tokens": 1}
    return httpx.post(f"{envoy.url}/v1/completions", json=body, timeout=30)


def test_requests_reach_the_pods_with_the_label_and_none_without_the_picker(
    envoy: Gateway, picker: Picker, model_server: Simulator
) -> None:
    wait_until(envoy.is_live, "Envoy is live", envoy)
    wait_until(lambda: envoy.healthy_pickers() == 1, "the picker is healthy", envoy)
    picker.wait_for_value("epp_endpoints", 1)

    answer = ask(envoy)
    picker.kill()
    wait_until(lambda: envoy.healthy_pickers() == 0, "the picker is missed", envoy)
    refused = ask(envoy)

    served = answer.headers["x-gateway-destination-endpoint-served"]
    assert (answer.status_code, served) == (200, str(model_server.address()))
    assert refused.status_code == 503
