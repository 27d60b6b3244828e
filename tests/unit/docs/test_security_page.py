"""docs/security.md names the numbers, headers, ports and tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epp.admin import access, http_connections, http_port
from epp.app import native_ports, stream_ports
from epp.app.options import ServeOptions
from epp.cli.envoy_flags import ADMIN
from epp.gateway.messages import DESTINATION_HEADER
from epp.gateway.request_headers import REMOVED_HEADERS
from epp.transport.crowding import HandshakeLimits
from epp.transport.guarded_tls import MAX_EMPTY_BYTES, MAX_RECORDS

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/security.md").read_text()


def section(title: str) -> str:
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_every_header_that_is_removed_is_told_and_no_other() -> None:
    told = section("Headers of clients").partition("passed on as they came")[0]
    rows = "".join(line.split(" | ")[0] for line in told.splitlines() if line.startswith("| `"))

    assert set(re.findall(r"`([a-z-]+)`", rows)) == {DESTINATION_HEADER, *REMOVED_HEADERS}


def test_ports_and_addresses_are_the_defaults() -> None:
    options, told = ServeOptions(), section("What listens")

    for port, flag in (
        (options.grpc_port, "--grpc-port"),
        (options.grpc_health_port, "--grpc-health-port"),
        (options.metrics_port, "--metrics-port"),
        (options.admin_port, "--admin-port"),
    ):
        assert f"| {port} `{flag}` |" in told
    assert f"| {options.admin_address}, `--admin-address` |" in told
    assert f"| {ADMIN}, never elsewhere" in told


def test_the_limits_are_those_of_the_code() -> None:
    told = section("Limits")

    for text in (
        f"| {http_connections.MAX_CONNECTIONS} each,",
        f"| {stream_ports.HEALTH_CONNECTIONS}, or an eighth |",
        f"| {HandshakeLimits().burst}, then {HandshakeLimits().per_second:g} a second |",
        f"| {MAX_EMPTY_BYTES >> 10} KiB |",
        f"| TLS records at once | {MAX_RECORDS:,} |",
        f"| {http_port.HANDSHAKE_SECONDS:g} s |",
        f"| {http_connections.LIFE_SECONDS:g} s after the last whole request head |",
        f"| {native_ports.HEALTH_STREAMS_PER_CONNECTION} of a connection |",
        f"| {native_ports.HEALTH_HELD_BYTES >> 20} MiB |",
    ):
        assert text in told
    asked = section("Where it connects to")
    assert f"{access.BURST:g} in a row and then five a second" in asked
    assert access.REVIEWS_PER_SECOND == 5


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([a-z_/]*test_[a-z_]+\.py)`", TEXT))))
def test_every_test_it_names_is_there(name: str) -> None:
    path = name if "/" in name else f"tests/component/security/{name}"

    assert (ROOT / path).is_file()
