"""Envoy and the picker with TLS between them, on both transports."""

from __future__ import annotations

import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.conftest import assert_no_complaints
from tests.fakes.certificates import new_pair, write_pair
from tests.fakes.programs.pool_client import PoolClient, different_prompts
from tests.fakes.programs.program import wait_until
from tests.fakes.programs.stack import MakeStack, Stack

pytestmark = pytest.mark.e2e

CHOICES = {
    "grpc": ["--transport=grpc"],
    "native": ["--transport=native"],
    "native, one cipher": [
        "--transport=native",
        "--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    ],
}


def shown_certificate(stack: Stack) -> str:
    address = stack.picker.ext_proc
    return ssl.get_server_certificate((address.host, address.port), timeout=5.0)


@pytest.mark.parametrize("flags", CHOICES.values(), ids=CHOICES.keys())
def test_requests_are_picked_for_through_tls(make_stack: MakeStack, flags: list[str]) -> None:
    stack = make_stack(fail_open=False, tls=True, picker_flags=flags)

    with PoolClient(stack) as client, ThreadPoolExecutor(8) as threads:
        served = list(threads.map(lambda prompt: client.ask(prompt).server, different_prompts(48)))

    assert set(served) == {str(address) for address in stack.servers}
    assert_no_complaints(stack)


@pytest.mark.parametrize("transport", ["grpc", "native"])
def test_a_certificate_changes_under_traffic(
    make_stack: MakeStack, tmp_path: Path, transport: str
) -> None:
    first, second = new_pair(), new_pair()
    directory = tmp_path / "tls"
    write_pair(directory, first)
    flags = [f"--transport={transport}", f"--cert-path={directory}", "--enable-cert-reload"]
    stack = make_stack(fail_open=False, tls=True, picker_flags=flags)
    assert shown_certificate(stack) == first.chain.decode()

    with PoolClient(stack) as client:
        client.servers_of(*different_prompts(5))
        write_pair(directory, second)
        wait_until(
            lambda: shown_certificate(stack) == second.chain.decode(), "certificate", stack.picker
        )
        client.servers_of(*different_prompts(5))

    assert_no_complaints(stack)
