"""Installed as shipped, in a real API server: the picker works with what it is given."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from epp.standalone.envoy_clusters import Address
from tests.fakes.kubernetes.objects import inference_pool, pod, pod_status
from tests.fakes.programs.processes import PortSource, Simulator
from tests.fakes.programs.program import wait_until
from tests.helm.chart import rendered_chart
from tests.helm.foreign import is_defined
from tests.helm.values import MATRIX
from tests.kube.caller import Caller
from tests.kube.harness import ControlPlane
from tests.kube.installation import (
    Manifests,
    ServiceAccount,
    command_of,
    install_manifests,
    rendered,
)
from tests.kube.installed_picker import InstalledPicker

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("definitions")]

EVENTS, METRICS_AUTH = "components/events", "components/metrics-auth"
OVERLAYS: dict[str, tuple[str, ...]] = {
    "base": ("base",),
    "for a tenant": ("overlays/namespaced",),
    "one leads": ("overlays/ha",),
    "metrics with tokens": ("overlays/metrics-auth",),
    "everything": ("overlays/ha", EVENTS, METRICS_AUTH),
}
CHARTS = (
    "defaults",
    "several replicas, one leads",
    "several replicas, all serve",
    "events",
    "no pool",
    "no pool, several replicas",
    "a pool there is",
    "another name for the pool",
    "metrics for all",
    "plaintext",
    "a configuration as text",
    "some parsers",
    "requests that can't be read",
    "scaled by load",
    "an example of the reference",
    "values of the reference",
)
Installed = Callable[[str], tuple[Manifests, ServiceAccount]]
Replica = Callable[[Manifests, ServiceAccount], InstalledPicker]


@pytest.fixture(scope="module")
def model_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    server = Simulator("model-server", tmp_path_factory.mktemp("model-server"))
    server.start()
    yield server.address()
    server.kill()


@pytest.fixture
def installed(
    admin: Caller,
    control_plane: ControlPlane,
    namespace: str,
    tmp_path: Path,
    model_server: Address,
) -> Installed:
    """Installs one of the overlays or charts, beside a pool and a ready pod."""

    def install(name: str) -> tuple[Manifests, ServiceAccount]:
        if name in OVERLAYS:
            overlay, *components = OVERLAYS[name]
            manifests = rendered(overlay, namespace, tmp_path, *components)
        else:
            values = copy.deepcopy(MATRIX[name])
            values["router"].setdefault("modelServers", {})["targetPorts"] = [
                {"number": model_server.port}
            ]
            manifests = [
                each for each in rendered_chart("llama", namespace, values) if is_defined(each)
            ]
        account = install_manifests(manifests, admin, control_plane, tmp_path)
        pool = command_of(manifests, namespace).options.pool_name
        if pool and not any(each["kind"] == "InferencePool" for each in manifests):
            admin.create(inference_pool(model_server.port, name=pool, namespace=namespace))
        server = pod("model-server-0", namespace=namespace)
        admin.create(server)
        admin.patch(server, pod_status(model_server.host), "/status")
        return manifests, account

    return install


@pytest.fixture
def replica(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[Replica]:
    """Starts one more replica of what was installed."""
    started: list[InstalledPicker] = []
    ports = PortSource()

    def start(manifests: Manifests, account: ServiceAccount) -> InstalledPicker:
        kubeconfig = control_plane.kubeconfig(account.token())
        name = f"epp-{len(started)}"
        started.append(InstalledPicker(name, tmp_path, ports, manifests, namespace, kubeconfig))
        started[-1].start()
        return started[-1]

    yield start
    for picker in started:
        picker.kill()


def complaints(picker: InstalledPicker) -> list[str]:
    """Lines of its log that are no mere information; it says something of nothing else."""
    lines = [line for line in picker.output().splitlines() if line]
    # The API server says so for a moment after any definition has changed.
    lines = [line for line in lines if "storage is (re)initializing" not in line]
    return [line for line in lines if json.loads(line)["level"] != "info"]


@pytest.mark.parametrize("name", [*OVERLAYS, *CHARTS])
def test_it_becomes_ready_and_has_nothing_to_complain_of(
    installed: Installed, replica: Replica, name: str
) -> None:
    picker = replica(*installed(name))

    picker.wait_until_ready()
    picker.wait_for_line('"endpoints changed"')

    assert picker.passes("liveness")
    assert complaints(picker) == []
    assert picker.stop() == 0


@pytest.mark.parametrize("name", ["base", "metrics with tokens", "defaults", "no pool"])
def test_the_doctor_finds_nothing_wrong(installed: Installed, replica: Replica, name: str) -> None:
    picker = replica(*installed(name))
    picker.wait_until_ready()

    findings = picker.examine()

    assert [each for each in findings if each["verdict"] in ("warning", "fault")] == []
    assert {"permissions", "picker-port", "picker-exchange"} <= {each["check"] for each in findings}


@pytest.mark.parametrize("name", ["everything", "several replicas, one leads"])
def test_a_replica_waits_for_the_lead_alive_and_unready_and_takes_over(
    installed: Installed, replica: Replica, admin: Caller, namespace: str, name: str
) -> None:
    manifests, account = installed(name)
    leader = replica(manifests, account)
    leader.wait_until_ready()
    follower = replica(manifests, account)
    follower.wait_for_line('"endpoints changed"')
    wait_until(lambda: follower.passes("liveness"), "liveness", follower)
    assert not follower.passes("readiness")

    assert leader.stop() == 0

    follower.wait_until_ready()
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    (lease,) = admin.request("GET", leases)["items"]
    assert lease["spec"]["holderIdentity"]
    assert complaints(follower) == []


def test_the_chart_gives_prometheus_an_account_that_reads_metrics(
    installed: Installed,
    replica: Replica,
    control_plane: ControlPlane,
    admin: Caller,
    namespace: str,
    tmp_path: Path,
) -> None:
    manifests, account = installed("Prometheus")
    reader = admin.request(
        "GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/llama-epp-metrics-reader"
    )
    picker = replica(manifests, account)
    picker.wait_until_ready()

    scrapes = {
        "nobody": picker.scrape().status_code,
        "the picker itself": picker.scrape(account.token()).status_code,
        "prometheus": picker.scrape(
            ServiceAccount(control_plane, reader, tmp_path).token()
        ).status_code,
    }

    assert scrapes == {"nobody": 401, "the picker itself": 403, "prometheus": 200}


@pytest.mark.parametrize("name", ["everything", "events"])
def test_a_pool_without_a_ready_pod_is_told_beside_it(
    installed: Installed, replica: Replica, admin: Caller, namespace: str, name: str
) -> None:
    picker = replica(*installed(name))
    picker.wait_until_ready()
    picker.wait_for_line('"endpoints changed"')

    server = pod("model-server-0", namespace=namespace)
    admin.patch(server, pod_status("127.0.0.1", ready=False), "/status")

    def reasons() -> set[str]:
        events: list[dict[str, Any]] = admin.request(
            "GET", f"/api/v1/namespaces/{namespace}/events"
        )["items"]
        return {each["reason"] for each in events}

    wait_until(lambda: "NoReadyEndpoints" in reasons(), "the Event", picker)
