"""What `epp envoy-config` prints is what Envoy takes."""

from __future__ import annotations

import subprocess
from itertools import product
from pathlib import Path

import pytest

from epp.cli.main import main
from epp.standalone.envoy_binary import envoy_binary
from tests.fakes.pool_files import MANIFEST

MODES = ("FailClose", "FailOpen")
PICKERS = {
    "sidecar": ["--secure-serving=false"],
    "sidecar, tls": [],
    "headless service": ["--epp=epp.models.svc:9002", "--secure-serving=false"],
    "headless service, tls": ["--epp=epp.models.svc:9002"],
    "replicas": ["--epp=10.0.0.1:9002,[fd00::1]:9002"],
}
POOLS = {
    "flags": ["--endpoints=models.ns.svc:8000,[fd00::1]:8001", "--app-protocol=kubernetes.io/h2c"],
    "pool file": ["--pool-file=pool.yaml"],
}
OTHERS = {
    "defaults": [],
    "json": ["--output=json"],
    "all there is, at its least": [
        *("--response-bodies=false", "--envoy-admin-port=0", "--envoy-access-log="),
        *("--idle-timeout=1ns", "--pick-timeout=1ns", "--max-request-body-bytes=1"),
    ],
    "all there is, at its most": [
        *("--listen-address=::", "--idle-timeout=2562047h", "--pick-timeout=1h"),
        "--max-request-body-bytes=8388607Ti",
    ],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the pool file is."""
    entries = 'endpoints:\n- {name: a, address: 10.0.0.1}\n- {name: b, address: "fd00::1"}\n'
    (tmp_path / "pool.yaml").write_text(MANIFEST + entries)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("pickers", "pool", "others"),
    [pytest.param(*keys, id="; ".join(keys)) for keys in product(PICKERS, POOLS, OTHERS)],
)
def test_envoy_accepts_the_file(
    folder: Path,
    mode: str,
    pickers: str,
    pool: str,
    others: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = [f"--failure-mode={mode}", *PICKERS[pickers], *POOLS[pool], *OTHERS[others]]

    assert main(["envoy-config", *flags]) == 0
    file = folder / f"envoy.{'json' if others == 'json' else 'yaml'}"
    file.write_text(capsys.readouterr().out)
    result = subprocess.run(
        [str(envoy_binary()), "--mode", "validate", "-c", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 0, result.stderr
    assert f"configuration '{file}' OK" in result.stdout
