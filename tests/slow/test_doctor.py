"""`epp doctor` beside a real API server, a running picker and a model server: broken set-ups.

Causes are looked at before what follows from them, so the first fault is what is to be mended.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.doctor_cases import bootstrap, cluster, ext_proc
from tests.fakes.kubernetes.objects import inference_pool, pod, pod_status
from tests.fakes.programs.program import Program, wait_until
from tests.kube.caller import Caller
from tests.kube.harness import ControlPlane
from tests.kube.installation import ServiceAccount
from tests.kube.objects import namespace_of

pytestmark = pytest.mark.slow

POOL = "model-servers"
PLAIN_METRICS = "--metrics-endpoint-auth=false"
LABELS = {"app": "llama"}
PAGE = (Path(__file__).parents[1] / "samples/metrics/vllm_v1.prom").read_bytes()


class ModelServer:
    """Answers every GET with a page of metrics, or with 404."""

    def __init__(self) -> None:
        self.page: bytes | None = PAGE
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200 if owner.page else 404)
                self.send_header("Content-Length", str(len(owner.page or b"")))
                self.end_headers()
                self.wfile.write(owner.page or b"")

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.port: int = self._server.server_address[1]

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class SetUp:
    """A set-up in which all is well, until a test breaks it."""

    def __init__(
        self,
        admin: Caller,
        control_plane: ControlPlane,
        account: ServiceAccount,
        namespace: str,
        folder: Path,
        model_server: ModelServer,
    ) -> None:
        self.admin = admin
        self.namespace = namespace
        self.model_server = model_server
        self.pool = inference_pool(model_server.port, name=POOL, namespace=namespace, labels=LABELS)
        self.pod = pod("model-server-0", LABELS, namespace=namespace)
        self.dump: dict[str, Any] = bootstrap(tls=True)
        self._folder = folder
        self._own = control_plane.kubeconfig()
        self._pickers = control_plane.kubeconfig(account.token())

    def build(self) -> None:
        """Create what a user and controllers would."""
        self.admin.create(self.pool)
        self.admin.create(self.pod)
        self.admin.patch(self.pod, pod_status("127.0.0.1"), "/status")
        self.admin.create(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": "epp-1",
                    "namespace": self.namespace,
                    "labels": {"kubernetes.io/service-name": "epp"},
                },
                "addressType": "IPv4",
                "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}],
            }
        )

    @contextmanager
    def picker(self, *flags: str) -> Iterator[dict[str, int]]:
        """A running picker with the rights of config/base, and its ports."""
        command = [sys.executable, "-m", "epp", "serve", f"--pool-name={POOL}"]
        command += [f"--pool-namespace={self.namespace}", f"--kubeconfig={self._pickers}"]
        command += ["--grpc-port=0", "--grpc-health-port=0", "--metrics-port=0", "--admin-port=0"]
        command += ["--bind-address=127.0.0.1", "--drain-timeout=0", PLAIN_METRICS, *flags]
        program = Program("epp", command, self._folder / "epp.log")
        program.start()
        try:
            ports = json.loads(program.wait_for_line('"serving"'))
            program.wait_for_line('"endpoints changed"')
            yield ports
        finally:
            program.kill()

    def examine(self, ports: dict[str, int] | None, *flags: str) -> tuple[int, list[Any]]:
        """Exit code and findings, as the administrator sees them."""
        dump = self._folder / "dump.json"
        dump.write_text(json.dumps(self.dump))
        command = [sys.executable, "-m", "epp", "doctor", "--output=json", f"--pool-name={POOL}"]
        command += [f"--pool-namespace={self.namespace}", f"--kubeconfig={self._own}"]
        command += [PLAIN_METRICS, "--service-account=epp", f"--envoy-config-dump={dump}"]
        if ports is not None:
            command += [f"--grpc-address=127.0.0.1:{ports['ext_proc_port']}"]
            command += [f"--admin=127.0.0.1:{ports['admin_port']}"]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("KUBERNETES_")}
        done = subprocess.run(
            [*command, *flags],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=environment,
        )
        assert "Traceback" not in done.stderr
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)["findings"]

    def first_fault(self, ports: dict[str, int] | None, *flags: str) -> tuple[str, str]:
        """The check that found it, and what is said of it."""
        code, findings = self.examine(ports, *flags)
        faults = [each for each in findings if each["verdict"] == "fault"]
        assert code == 1
        assert all(each["advice"] for each in faults)
        return faults[0]["check"], f"{faults[0]['found']} -> {faults[0]['advice']}"


@pytest.fixture
def model_server() -> Iterator[ModelServer]:
    server = ModelServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def setup(
    admin: Caller,
    control_plane: ControlPlane,
    account: ServiceAccount,
    namespace: str,
    tmp_path: Path,
    model_server: ModelServer,
) -> SetUp:
    made = SetUp(admin, control_plane, account, namespace, tmp_path, model_server)
    made.build()
    return made


def test_where_all_is_well_no_fault_is_found(setup: SetUp) -> None:
    with setup.picker() as ports:
        code, findings = setup.examine(ports, "--strict")

    told = {each["check"]: each["verdict"] for each in findings}
    assert [each for each in findings if each["verdict"] in ("warning", "fault")] == []
    assert code == 0
    assert told["picker-exchange"] == told["permissions"] == told["picker-reference"] == "ok"


def test_the_pickers_own_rights_are_enough_to_examine(
    setup: SetUp, control_plane: ControlPlane, account: ServiceAccount
) -> None:
    with setup.picker() as ports:
        own = control_plane.kubeconfig(account.token())
        code, findings = setup.examine(ports, f"--kubeconfig={own}", "--service-account=")

    told = {each["check"]: each["verdict"] for each in findings}
    assert (code, told["permissions"], told["picker-reference"]) == (0, "ok", "skipped")


def test_a_wrong_selector(setup: SetUp) -> None:
    # What is merged stays: the label that was right is still asked for.
    setup.admin.patch(setup.pool, {"spec": {"selector": {"matchLabels": {"tier": "gpu"}}}})

    check, text = setup.first_fault(None)

    assert check == "pods"
    assert f"no pod of {setup.namespace} has app=llama,tier=gpu" in text
    assert "model-server-0 has no tier=gpu" in text


def test_pods_of_another_namespace(setup: SetUp) -> None:
    elsewhere = f"{setup.namespace}-other"
    setup.admin.create(namespace_of(elsewhere))
    setup.admin.create(pod("lost", {"app": setup.namespace}, namespace=elsewhere))
    setup.admin.patch(setup.pool, {"spec": {"selector": {"matchLabels": {"app": setup.namespace}}}})

    check, text = setup.first_fault(None)

    assert check == "pods"
    assert f"{elsewhere}: 1" in text


def test_a_missing_role_binding(setup: SetUp) -> None:
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "epp", "namespace": setup.namespace},
    }
    with setup.picker() as ports:
        setup.admin.delete(binding)
        wait_until(lambda: setup.examine(ports)[0] == 1, "the right to be gone")

        check, text = setup.first_fault(ports)

    assert check == "permissions"
    assert f"ServiceAccount {setup.namespace}/epp may not list, watch pods" in text
    assert 'apiGroups: [""], resources: [pods], verbs: [list, watch]' in text


def test_a_wrong_target_port(setup: SetUp) -> None:
    unused = ModelServer()
    unused.start()
    unused.stop()
    setup.admin.patch(setup.pool, {"spec": {"targetPorts": [{"number": unused.port}]}})

    check, text = setup.first_fault(None)

    assert check == "endpoint-ports"
    assert f"connection refused: 127.0.0.1:{unused.port}" in text


def test_pods_that_are_not_ready(setup: SetUp) -> None:
    setup.admin.patch(setup.pod, pod_status("127.0.0.1", ready=False), "/status")

    check, text = setup.first_fault(None)

    assert check == "pods"
    assert f"no endpoint, not ready: {setup.namespace}/model-server-0" in text


def test_a_wrong_namespace(setup: SetUp) -> None:
    check, text = setup.first_fault(None, "--pool-namespace=default")

    assert check == "pool"
    assert "InferencePool default/model-servers does not exist" in text
    assert f"/{POOL}" in text


def test_a_pool_that_is_not_valid_although_the_api_server_takes_it(setup: SetUp) -> None:
    setup.admin.patch(setup.pool, {"spec": {"selector": {"matchLabels": {"not a key!": "a"}}}})

    check, text = setup.first_fault(None)

    assert check == "pool"
    assert 'spec.selector.matchLabels: key "not a key!" is not allowed' in text


def test_a_port_that_the_service_does_not_have(setup: SetUp) -> None:
    setup.admin.patch(setup.pool, {"spec": {"endpointPickerRef": {"port": {"number": 9003}}}})

    check, text = setup.first_fault(None)

    assert check == "picker-reference"
    assert f"Service {setup.namespace}/epp has no port 9003; it has 9002, 9090" in text


def test_a_picker_in_plaintext_where_tls_is_meant(setup: SetUp) -> None:
    with setup.picker("--secure-serving=false") as ports:
        check, text = setup.first_fault(ports)
        _, findings = setup.examine(ports)

    assert check == "picker-port"
    assert "speaks plaintext HTTP/2, but TLS is meant" in text
    assert "gateway-picker-tls" in [e["check"] for e in findings if e["verdict"] == "fault"]


def test_metrics_that_are_not_there(setup: SetUp) -> None:
    setup.model_server.page = None
    with setup.picker() as ports:
        check, text = setup.first_fault(ports)

    assert check == "endpoint-metrics"
    assert f"http://127.0.0.1:{setup.model_server.port}/metrics: HTTP status 404" in text


def test_a_gateway_with_another_failure_mode(setup: SetUp) -> None:
    ext_proc(setup.dump)["failure_mode_allow"] = True
    with setup.picker() as ports:
        check, text = setup.first_fault(ports)

    assert check == "gateway-failure-mode"
    assert "failure_mode_allow: true, but the pool says FailClose" in text


def test_a_circuit_breaker_that_is_too_small(setup: SetUp) -> None:
    setup.dump = copy.deepcopy(setup.dump)
    del cluster(setup.dump, "epp")["circuit_breakers"]
    with setup.picker() as ports:
        check, text = setup.first_fault(ports)

    assert check == "gateway-circuit-breakers"
    assert "epp: max_pending_requests 1024, max_requests 1024" in text
