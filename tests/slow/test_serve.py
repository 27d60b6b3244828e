"""`epp serve` and `epp pool show` beside a real API server, with the rights that are shipped."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.kubernetes.objects import inference_pool, pod, pod_status
from tests.fakes.programs.program import Program, wait_until
from tests.kube.caller import Caller
from tests.kube.harness import ControlPlane
from tests.kube.installation import ServiceAccount

pytestmark = pytest.mark.slow

POOL = "model-servers"


@pytest.fixture
def kubeconfig(control_plane: ControlPlane, account: ServiceAccount) -> Path:
    return control_plane.kubeconfig(account.token())


@pytest.fixture
def picker(kubeconfig: Path, namespace: str, tmp_path: Path) -> Iterator[Program]:
    command = [sys.executable, "-m", "epp", "serve", f"--pool-name={POOL}"]
    command += [f"--pool-namespace={namespace}", f"--kubeconfig={kubeconfig}"]
    command += ["--grpc-port=0", "--grpc-health-port=0", "--metrics-port=0", "--admin-port=0"]
    command += ["--bind-address=127.0.0.1", "--drain-timeout=0"]
    program = Program("epp", command, tmp_path / "epp.log")
    program.start()
    yield program
    program.kill()


def show(*flags: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "epp", "pool", "show", "--output=json", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_picker_and_cluster_agree_on_a_pool_that_was_created_later(
    admin: Caller, namespace: str, kubeconfig: Path, picker: Program
) -> None:
    told = json.loads(picker.wait_for_line('"serving"'))
    running = f"--admin=127.0.0.1:{told['admin_port']}"
    in_cluster = (f"--pool-name={POOL}", f"--pool-namespace={namespace}")
    wait_until(lambda: bool(show(running)[1]["problems"]), "the pool is missed", picker)
    code, seen = show(running)
    assert code == 1
    assert seen["problems"] == [f"InferencePool {namespace}/{POOL} does not exist"]

    admin.create(inference_pool(8000, name=POOL, namespace=namespace))
    for name, ready in (("a", True), ("b", False)):
        manifest = pod(name, namespace=namespace)
        admin.create(manifest)
        admin.patch(manifest, pod_status("10.0.0.1", ready=ready), "/status")
    wait_until(lambda: show(running)[0] == 0, "readiness", picker)
    wait_until(lambda: len(show(running)[1]["podsWithoutEndpoint"]) == 1, "pods", picker)

    code, seen = show(running)
    assert code == 0
    assert [endpoint["address"] for endpoint in seen["endpoints"]] == ["10.0.0.1:8000"]
    assert seen["podsWithoutEndpoint"] == [
        {"name": "b", "namespace": namespace, "reason": "not ready"}
    ]
    for endpoint in seen["endpoints"]:
        # Only a running picker scrapes and learns; nobody answers at this address.
        assert endpoint.pop("isStale")
        assert endpoint.pop("prefixShare") == 0
    code, asked = show(*in_cluster, f"--kubeconfig={kubeconfig}")
    for endpoint in asked["endpoints"]:
        assert not endpoint.pop("isStale")
        assert endpoint.pop("prefixShare") is None
    assert (code, asked) == (0, {**seen, "problems": []})
    assert picker.stop() == 0
