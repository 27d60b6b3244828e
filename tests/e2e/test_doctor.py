"""`epp doctor` with a running Envoy, picker and model servers, as a user has them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.fakes.programs.stack import MakeStack, Stack

pytestmark = pytest.mark.e2e


def examine(stack: Stack, *flags: str) -> tuple[int, list[dict[str, Any]]]:
    """Exit code, and what is not well."""
    picker = stack.picker
    command = [sys.executable, "-m", "epp", "doctor", "--output=json", "--skip=limits"]
    command += [f"--pool-file={stack.pool_file}", f"--grpc-address={picker.ext_proc}"]
    command += [f"--admin={picker.admin}", "--envoy-admin", stack.gateway.admin_url[7:], *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout, done.stderr
    findings = json.loads(done.stdout)["findings"]
    assert any(each["check"] == "gateway-destination" for each in findings)
    return done.returncode, [e for e in findings if e["verdict"] in ("warning", "fault")]


@pytest.mark.parametrize("fail_open", [False, True], ids=["FailClose", "FailOpen"])
def test_nothing_is_wrong_with_what_we_render(make_stack: MakeStack, fail_open: bool) -> None:
    stack = make_stack(fail_open=fail_open, tls=True)

    assert examine(stack, "--strict") == (0, [])


def test_a_picker_that_was_stopped_is_found(make_stack: MakeStack) -> None:
    stack = make_stack(fail_open=False)
    stack.picker.kill()

    code, bad = examine(stack, "--secure-serving=false")

    assert code == 1
    assert {"picker-port", "picker-admin"} <= {each["check"] for each in bad}
