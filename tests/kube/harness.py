"""A real etcd and kube-apiserver on loopback, with switches for everything that goes wrong.

There is no kubelet, scheduler or controller: a pod stays as it was written, and its status is
whatever a test writes. Never delete a namespace, nothing finishes it; each test makes its own.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import httpx

from tests.fakes.programs.processes import PortSource
from tests.fakes.programs.program import Program
from tests.kube.credentials import ADMIN_TOKEN, ISSUER, Credentials, kubeconfig

BINARIES = Path(os.environ.get("EPP_KUBE_TEST_BIN") or Path.home() / ".cache/epp-kube-test")
LOOPBACK = "127.0.0.1"
_START_SECONDS = 120.0
_LARGEST_TRANSACTION = 100


class ControlPlane:
    """Two processes that end with this one; calls block until the server answers."""

    def __init__(self, folder: Path, *, flags: Sequence[str] = ()) -> None:
        self.credentials = Credentials(folder)
        self._folder = folder
        ports = PortSource()
        self._etcd_client, self._etcd_peer = (f"http://{LOOPBACK}:{ports.take()}" for _ in "cp")
        port = ports.take()
        self.url = f"https://{LOOPBACK}:{port}"
        self._etcd = _program("etcd", self._etcd_flags(), folder)
        self._server = _program("kube-apiserver", [*self._server_flags(port), *flags], folder)
        # A process that is to end with its parent ends with the thread that started it.
        self._starter = ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        try:
            self.credentials.write()
            self.tls = ssl.create_default_context(cafile=str(self.credentials.ca))
            self._start_etcd()
            self.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def kubeconfig(self, token: str = ADMIN_TOKEN) -> Path:
        """The file for a user with this token; the administrator unless said otherwise."""
        path = self._folder / f"kubeconfig-{token[-40:]}"
        path.write_text(kubeconfig(self.url, self.credentials.ca, token))
        return path

    def freeze(self) -> None:
        """Keep every connection open and answer nothing: the nastiest outage for a client."""
        self._server.pause()

    def thaw(self) -> None:
        """Go on after `freeze`."""
        self._server.resume()

    def kill(self) -> None:
        """End the API server without a goodbye; what it has stored stays."""
        self._server.kill()

    def start(self) -> None:
        """Start the API server again: same port and data, and every watch from before gets 410."""
        self._starter.submit(self._server.start).result()
        self._wait(self._server, self._is_ready)

    def restart(self) -> None:
        """Kill and start; a graceful stop would wait up to a minute for open watches."""
        self.kill()
        self.start()

    def wipe(self) -> None:
        """Lose all data, as after a restore from a backup: resourceVersions start over."""
        self.kill()
        self._etcd.kill()
        shutil.rmtree(self._folder / "etcd")
        self._start_etcd()
        self.start()

    def compact(self) -> None:
        """Forget all history; a restart then makes the API server forget its own copy as well."""
        revision = self._ask_etcd("/v3/maintenance/status", {})["header"]["revision"]
        self._ask_etcd("/v3/kv/compaction", {"revision": revision, "physical": True})

    def store(self, collection: str, objects: Sequence[Mapping[str, Any]]) -> None:
        """Put objects into etcd behind the API server's back, a thousand times as fast."""
        for start in range(0, len(objects), _LARGEST_TRANSACTION):
            puts = [
                {"requestPut": {"key": _key_in_etcd(collection, each), "value": _in_base64(each)}}
                for each in objects[start : start + _LARGEST_TRANSACTION]
            ]
            self._ask_etcd("/v3/kv/txn", {"success": puts})

    def _end(self) -> None:
        for program in (self._server, self._etcd):
            program.kill()
        self._starter.shutdown()

    def _start_etcd(self) -> None:
        self._starter.submit(self._etcd.start).result()
        self._wait(self._etcd, lambda: bool(self._ask_etcd("/v3/maintenance/status", {})))

    def _ask_etcd(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = httpx.post(self._etcd_client + path, json=body, timeout=30).raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def _is_ready(self) -> bool:
        return httpx.get(f"{self.url}/readyz", verify=self.tls, timeout=5).is_success

    def _wait(self, program: Program, claim: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not _holds(claim):
            if not program.is_running or time.monotonic() > deadline:
                raise RuntimeError(f"{program.name} did not start:\n{program.output()[-4000:]}")
            time.sleep(0.05)

    def _etcd_flags(self) -> list[str]:
        return [
            f"--data-dir={self._folder / 'etcd'}",
            "--name=test",
            "--log-level=error",
            f"--listen-client-urls={self._etcd_client}",
            f"--advertise-client-urls={self._etcd_client}",
            f"--listen-peer-urls={self._etcd_peer}",
            f"--initial-advertise-peer-urls={self._etcd_peer}",
            f"--initial-cluster=test={self._etcd_peer}",
            "--unsafe-no-fsync",
        ]

    def _server_flags(self, port: int) -> list[str]:
        files = self.credentials
        return [
            f"--etcd-servers={self._etcd_client}",
            "--etcd-compaction-interval=0",  # `compact` decides
            f"--bind-address={LOOPBACK}",
            f"--advertise-address={LOOPBACK}",
            f"--secure-port={port}",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.96.0.0/24",
            f"--tls-cert-file={files.server_certificate}",
            f"--tls-private-key-file={files.server_key}",
            f"--token-auth-file={files.tokens}",
            "--authorization-mode=RBAC",
            f"--service-account-issuer={ISSUER}",
            f"--service-account-key-file={files.service_account_key}",
            f"--service-account-signing-key-file={files.service_account_key}",
            # It would wait for service accounts that only a controller makes.
            "--disable-admission-plugins=ServiceAccount",
            "--enable-priority-and-fairness=false",
            "--profiling=false",
            "--v=0",
        ]


def _program(name: str, flags: Sequence[str], folder: Path) -> Program:
    end_with_parent = ["setpriv", "--pdeathsig", "KILL"]
    return Program(name, [*end_with_parent, str(BINARIES / name), *flags], folder / f"{name}.log")


def _key_in_etcd(collection: str, manifest: Mapping[str, Any]) -> str:
    metadata = manifest["metadata"]
    key = f"/registry/{collection}/{metadata['namespace']}/{metadata['name']}"
    return base64.b64encode(key.encode()).decode()


def _in_base64(manifest: Mapping[str, Any]) -> str:
    return base64.b64encode(json.dumps(manifest).encode()).decode()


def _holds(claim: Callable[[], bool]) -> bool:
    try:
        return claim()
    except httpx.HTTPError:
        return False
