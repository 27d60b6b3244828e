"""The command as a process of its own."""

from __future__ import annotations

import subprocess
import sys


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=50, check=False
    )


def test_an_unknown_flag_ends_with_2_and_names_the_nearest_without_a_traceback() -> None:
    process = run_python("-m", "epp", "serve", "--secure-servin=false")

    assert process.returncode == 2
    assert "unknown flag --secure-servin; the nearest is --secure-serving" in process.stderr
    assert "Traceback" not in process.stderr
    assert process.stdout == ""


def test_a_flag_like_no_other_ends_with_2_and_without_a_guess() -> None:
    process = run_python("-m", "epp", "serve", "--no-such-flag")

    assert process.returncode == 2
    assert "unknown flag --no-such-flag\n" in process.stderr
    assert "Traceback" not in process.stderr


def test_standalone_does_not_load_grpc_before_it_has_told_it_to_be_silent() -> None:
    script = """
import sys
import epp.standalone.arguments
print("grpc" in sys.modules)
"""

    process = run_python("-c", script)

    assert process.stdout == "False\n", process.stderr


def test_envoy_config_loads_neither_grpc_nor_what_serves_nor_kubernetes() -> None:
    script = """
import sys
from epp.cli.main import main
code = main(["envoy-config", "--output=json"])
heavy = ("grpc", "aiohttp", "kubernetes_asyncio", "epp.gateway.stream", "epp.app.application")
print(code, [name for name in heavy if name in sys.modules], file=sys.stderr)
"""

    process = run_python("-c", script)

    assert process.stderr == "0 []\n"


def test_the_native_transport_does_not_load_grpc() -> None:
    script = """
import sys
import epp.app.serve
from epp.app.stream_ports import stream_ports
stream_ports("native")
print("grpc" in sys.modules)
stream_ports("grpc")
print("grpc" in sys.modules)
"""

    process = run_python("-c", script)

    assert process.stdout == "False\nTrue\n", process.stderr


def test_serve_loads_neither_simulator_nor_standalone() -> None:
    script = """
import sys
from epp.cli.main import main
ports = [f"--{name}-port=0" for name in ("grpc", "grpc-health", "metrics", "admin")]
code = main(["serve", "--pool-file=/does/not/exist.yaml", *ports])
print(code, [name for name in sys.modules if name.startswith(("epp.simulator", "epp.standalone"))])
"""

    process = run_python("-c", script)

    assert process.stdout == "2 []\n", process.stderr
    assert "/does/not/exist.yaml" in process.stderr
