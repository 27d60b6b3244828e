from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from epp.framework.errors import ConfigError
from epp.standalone.envoy_clusters import Address
from epp.standalone.pool import (
    ModelServer,
    parse_endpoints,
    pool_document,
    resolve,
    temporary_pool_file,
)


def test_endpoints_are_names_and_addresses_with_ports() -> None:
    assert parse_endpoints("localhost:8000, 10.0.0.1:80,[FD00::01]:8001") == (
        Address("localhost", 8000),
        Address("10.0.0.1", 80),
        Address("fd00::1", 8001),
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "names no address"),
        (",", "names no address"),
        ("localhost", "'localhost' is not an address"),
        ("fd00::1:8000", "'fd00::1:8000' is not an address"),
        ("http://localhost:8000", "'http://localhost:8000' is not an address"),
        ("[localhost]:8000", "only IPv6 addresses go in brackets"),
        ("localhost:0", "port of 'localhost:0' is out of range"),
        ("localhost:65536", "port of 'localhost:65536' is out of range"),
        ("a..b:1", "host of 'a..b:1' is no name"),
        ("\x1b[31m:1", "'\\x1b[31m:1' is not an address"),
        ("\x07:1", "host of '\\x07:1' is no name"),
        (f"{'a' * 64}:1", "is no name"),
        ("a:1,b:2,a:1", "a:1 is named twice"),
    ],
)
def test_what_is_no_endpoint_is_named(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match="--endpoints: ") as raised:
        parse_endpoints(text)

    assert problem in str(raised.value)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        addresses = parse_endpoints(text)
    except ConfigError:
        return
    assert all(1 <= address.port <= 65535 for address in addresses)


async def test_names_become_ip_addresses() -> None:
    servers = await resolve([Address("localhost", 8000), Address("::1", 8001)])

    assert servers == (
        ModelServer(name="server-1", address=Address("127.0.0.1", 8000)),
        ModelServer(name="server-2", address=Address("::1", 8001)),
    )


async def test_a_name_nobody_knows_is_told() -> None:
    with pytest.raises(ConfigError, match=r"--endpoints: 'nowhere\.invalid' can't be resolved"):
        await resolve([Address("nowhere.invalid", 8000)])


def test_the_document_holds_a_pool_and_its_endpoints() -> None:
    servers = [
        ModelServer(name="server-1", address=Address("127.0.0.1", 8000)),
        ModelServer(name="server-2", address=Address("::1", 8001)),
    ]

    pool, endpoints = yaml.safe_load_all(pool_document(servers, "FailOpen"))

    assert pool["kind"] == "InferencePool"
    assert pool["spec"]["endpointPickerRef"]["failureMode"] == "FailOpen"
    assert pool["metadata"] == {"name": "standalone"}
    assert [(each["name"], each["address"], each["port"]) for each in endpoints["endpoints"]] == [
        ("server-1", "127.0.0.1", "8000"),
        ("server-2", "::1", "8001"),
    ]


def test_the_pool_file_is_gone_afterwards(tmp_path: Path) -> None:
    folder = tmp_path / "run"

    with temporary_pool_file("endpoints: []\n", folder) as path:
        assert path.read_text() == "endpoints: []\n"

    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_other_files_stays(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()

    with temporary_pool_file("", tmp_path):
        pass

    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_where_no_pool_file_can_be_written_it_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / ".epp"

    with (
        pytest.raises(ConfigError, match=r"file/\.epp: .*; start it in a folder") as caught,
        temporary_pool_file("", folder),
    ):
        pass

    assert "--pool-file" in str(caught.value)
