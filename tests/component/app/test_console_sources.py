"""What the console is fed with, beyond what others read as well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epp import __version__
from tests.fakes.eventually import eventually
from tests.fakes.pickers.applications import (
    TAKING_TURNS,
    get,
    options_for_tests,
    picks,
    pool_page,
    running,
)
from tests.fakes.pickers.gateway_client import gateway_client
from tests.fakes.pool_files import MANIFEST

PREFIXES = """
plugins: [{type: prefix-cache-scorer}, {type: max-score-picker}]
schedulingProfiles:
- name: default
  plugins: [{pluginRef: prefix-cache-scorer, weight: 3}, {pluginRef: max-score-picker}]
dataLayer: {injectDefaults: false}
"""
LONG = b'{"model":"m","prompt":"%s"}' % (b"one two three " * 200)


@pytest.fixture
def pool_file(tmp_path: Path) -> Path:
    path = tmp_path / "pool.yaml"
    path.write_text(
        f"{MANIFEST}endpoints: [{{name: a, address: 10.0.0.1}}, {{name: b, address: 10.0.0.2}}]\n"
    )
    return path


async def configuration(port: int) -> dict[str, Any]:
    document: dict[str, Any] = await (await get(port, "/configuration")).json()
    return document


async def test_the_pool_tells_where_prefixes_are_believed_to_be_cached(pool_file: Path) -> None:
    settings = options_for_tests(pool_file=pool_file, config_text=PREFIXES)
    async with running(settings) as (_, ports), gateway_client(ports.grpc) as client:
        before = await pool_page(ports.admin)
        exchange = client.exchange()
        await exchange.post(LONG)
        picked = await exchange.picked()
        after = await pool_page(ports.admin)

    assert [each["prefixShare"] for each in before["endpoints"]] == [0, 0]
    shares = {each["address"]: each["prefixShare"] for each in after["endpoints"]}
    assert shares.pop(picked) == 1
    assert list(shares.values()) == [0]


async def test_without_a_prefix_index_nothing_is_said_of_prefixes(pool_file: Path) -> None:
    async with running(options_for_tests(pool_file=pool_file)) as (_, ports):
        await picks(ports.grpc, 2)
        page = await pool_page(ports.admin)

    assert [each["prefixShare"] for each in page["endpoints"]] == [None, None]


async def test_the_configuration_in_force_is_told_with_its_defaults(pool_file: Path) -> None:
    settings = options_for_tests(pool_file=pool_file, config_text=PREFIXES)
    async with running(settings) as (_, ports):
        told = await configuration(ports.admin)

    assert told["version"] == __version__
    assert told["source"] == "--config-text"
    assert told["profiles"] == ["profile default: prefix-cache-scorer x3, max-score-picker"]
    assert "maxPrefixTokensToMatch: 131072" in told["document"]
    assert told["problem"] is None


async def test_a_configuration_that_is_taken_over_or_refused_is_told(
    pool_file: Path, tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(TAKING_TURNS)
    settings = options_for_tests(pool_file=pool_file, config_file=file)
    async with running(settings) as (application, ports):
        first = await configuration(ports.admin)
        file.write_text(PREFIXES)
        await eventually(lambda: "prefix" in application.profiles()[0])
        second = await configuration(ports.admin)
        file.write_text("plugins: [{type: no-such-plugin}]")
        await eventually(lambda: bool(application.views.configuration().problem))
        third = await configuration(ports.admin)

    assert first["source"] == str(file)
    assert "prefix-cache-scorer" not in first["document"]
    assert "prefix-cache-scorer" in second["document"]
    assert third["document"] == second["document"]
    assert "no-such-plugin" in third["problem"]
