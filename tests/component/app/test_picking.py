"""How a process picks: its configuration at start, while it changes, and what pages tell of it."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.typing import EventDict

from epp.app.application import Application
from epp.app.listeners import BoundPorts
from epp.app.options import ServeOptions
from epp.config.built_in import BUILT_IN
from epp.data_layer.connection_budget import connections_within
from epp.framework.errors import ConfigError
from epp.support.open_files import open_files_limit
from tests.fakes.eventually import eventually
from tests.fakes.logs import awaitable_logs, until_logged
from tests.fakes.pickers.applications import (
    answer,
    get,
    options_for_tests,
    picks,
    pool_page,
    running,
)
from tests.fakes.pickers.gateway_client import gateway_client
from tests.fakes.pool_files import MANIFEST

POOL = (
    MANIFEST.replace("8000", "1")
    + """\
endpoints:
- {name: gpu-a, address: 127.0.0.1, labels: {tier: gold}}
- {name: gpu-b, address: 127.0.0.2, labels: {tier: iron}}
"""
)
ROOT = Path(__file__).parents[3]
A, B = "127.0.0.1:1", "127.0.0.2:1"
# By the label of an endpoint, so that each text picks another one; nobody is asked for metrics.
BY_LABEL = """
plugins:
- type: label-selector-filter
  parameters: {matchLabels: {tier: %s}}
schedulingProfiles: [{name: default, plugins: [{pluginRef: label-selector-filter}]}]
dataLayer: {injectDefaults: false}
"""
MISTAKEN = """
plugins:
- {type: queue-scorrer}
- {type: label-selector-filter, parameters: {matchLabel: {tier: gold}}}
schedulingProfiles:
- name: default
  plugins: [{pluginRef: nobody, weight: heavy}]
dataLayer: {injectDefaults: false}
"""
ODD = """
plugins: [{type: max-score-picker}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: max-score-picker, weight: %s}]}]
dataLayer: {injectDefaults: false}
"""
IN_FORCE = "configuration in force"
REFUSED = "configuration refused, the last good one stays"
ODDITY = "configuration is odd"


@pytest.fixture
def pool_file(tmp_path: Path) -> Path:
    path = tmp_path / "pool.yaml"
    path.write_text(POOL)
    return path


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "config" / "config.yaml"
    path.parent.mkdir()
    path.write_text(BY_LABEL % "gold")
    return path


@pytest.fixture
def options(pool_file: Path, config_file: Path) -> ServeOptions:
    return options_for_tests(pool_file=pool_file, config_file=config_file)


def read(path: Path) -> str:
    return path.read_text()


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def write(path: Path, text: str) -> None:
    path.write_text(text)


def remove(path: Path) -> None:
    path.unlink()


async def value_of(ports: BoundPorts, series: str) -> float:
    """The sum of the samples on the metrics page whose names begin so."""
    page = await (await get(ports.metrics, "/metrics")).text()
    lines = [line for line in page.splitlines() if line.startswith(series)]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


async def reloads(ports: BoundPorts, outcome: str) -> float:
    return await value_of(ports, f'epp_config_reloads_total{{outcome="{outcome}"}}')


async def problems(ports: BoundPorts) -> list[str]:
    page = await pool_page(ports.admin)
    return [str(problem) for problem in page["problems"]]


async def all_until(lines: asyncio.Queue[EventDict], event: str) -> list[EventDict]:
    """Every line up to the one with that event."""
    found = [await lines.get()]
    while found[-1]["event"] != event:
        found.append(await lines.get())
    return found


def test_a_file_that_is_wrong_at_start_is_refused_with_all_its_mistakes(
    options: ServeOptions, config_file: Path
) -> None:
    write(config_file, MISTAKEN)

    with pytest.raises(ConfigError) as caught:
        Application(options)

    first, *mistakes = str(caught.value).splitlines()
    assert str(config_file) in first
    for path in (
        "plugins[0].type",
        "plugins[1].parameters.matchLabel",
        "schedulingProfiles[0].plugins[0].pluginRef",
        "schedulingProfiles[0].plugins[0].weight",
    ):
        assert [line for line in mistakes if line.strip().startswith(path)], path
    assert "queue-scorer" in str(caught.value)


@pytest.mark.parametrize("text", ["- a list", "{", "\x00", "kind: Deployment"])
def test_what_is_no_configuration_at_all_is_refused_at_start(
    options: ServeOptions, config_file: Path, text: str
) -> None:
    write(config_file, text)

    with pytest.raises(ConfigError, match=r"config\.yaml"):
        Application(options)


def test_a_file_that_is_not_there_is_refused_at_start(pool_file: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml can't be read"):
        Application(options_for_tests(pool_file=pool_file, config_file=pool_file / "none.yaml"))


def test_flags_of_scraping_are_in_force(pool_file: Path) -> None:
    application = Application(
        options_for_tests(
            pool_file=pool_file,
            refresh_metrics_interval=0.2,
            idle_metrics_interval=3.0,
            refresh_prometheus_metrics_interval=7.0,
            metrics_staleness_threshold=9.0,
        )
    )

    settings = application._picking.data_layer._settings
    assert (settings.refresh_seconds, settings.idle_refresh_seconds) == (0.2, 3.0)
    assert (settings.gauge_refresh_seconds, settings.fresh_seconds) == (7.0, 9.0)
    assert settings.max_connections == connections_within(open_files_limit())


def test_an_alpha_plugin_needs_the_flag(pool_file: Path) -> None:
    text = "plugins: [{type: agent-identity}]\ndataLayer: {injectDefaults: false}"

    with pytest.raises(ConfigError, match="--allow-experimental-plugins"):
        Application(options_for_tests(pool_file=pool_file, config_text=text))

    Application(
        options_for_tests(pool_file=pool_file, config_text=text, allow_experimental_plugins=True)
    )


def test_without_a_configuration_the_built_in_one_counts(pool_file: Path) -> None:
    application = Application(options_for_tests(pool_file=pool_file, config_text=""))

    (profile,) = application.profiles()
    assert profile == (
        "profile default: queue-scorer x2, kv-cache-utilization-scorer x2, prefix-cache-scorer x3,"
        " max-score-picker"
    )


async def test_a_changed_file_is_followed(options: ServeOptions, config_file: Path) -> None:
    with awaitable_logs() as lines:
        async with running(options) as (_, ports):
            before = await picks(ports.grpc)
            write(config_file, BY_LABEL % "iron")
            await until_logged(lines, IN_FORCE)
            after = await picks(ports.grpc)

            assert (before, after) == ({A}, {B})
            assert await reloads(ports, "success") == 1
            assert await reloads(ports, "failure") == 0


async def test_a_file_that_changed_while_the_process_started_is_followed(
    options: ServeOptions, config_file: Path
) -> None:
    with awaitable_logs() as lines:
        application = Application(options)
        write(config_file, BY_LABEL % "iron")
        ports = await application.start()
        try:
            await until_logged(lines, IN_FORCE)
            assert await picks(ports.grpc) == {B}
        finally:
            await application.stop()


async def test_a_wrong_file_changes_nothing_until_it_is_right_again(
    options: ServeOptions, config_file: Path
) -> None:
    with awaitable_logs() as lines:
        async with running(options) as (_, ports):
            write(config_file, MISTAKEN)
            refusal = await until_logged(lines, REFUSED)
            during = await picks(ports.grpc)
            told = await problems(ports)
            failures = await reloads(ports, "failure")
            was_up_to_date = await value_of(ports, "epp_config_up_to_date")
            write(config_file, BY_LABEL % "iron")
            await until_logged(lines, IN_FORCE)
            after = await picks(ports.grpc)

            assert (during, after) == ({A}, {B})
            assert "plugins[0].type" in refusal["problem"]
            assert told == [refusal["problem"]]
            assert await problems(ports) == []
            assert failures == 1
            assert await reloads(ports, "success") == 1
            assert was_up_to_date == 0
            assert await value_of(ports, "epp_config_up_to_date") == 1


@pytest.mark.parametrize("replace", [remove, pipe, make_directory])
async def test_a_file_that_is_taken_away_changes_nothing(
    options: ServeOptions, config_file: Path, replace: Callable[[Path], None]
) -> None:
    with awaitable_logs() as lines:
        async with running(options) as (_, ports):
            replace(config_file)
            refusal = await until_logged(lines, REFUSED)

            assert "can't be read" in refusal["problem"]
            assert await picks(ports.grpc) == {A}


async def test_the_source_of_endpoints_stays_while_the_process_runs(
    options: ServeOptions, config_file: Path, pool_file: Path
) -> None:
    plugin = {"type": "file-discovery", "parameters": {"path": str(pool_file)}}
    listing = {"plugins": [plugin], "dataLayer": {"discovery": {"pluginRef": "file-discovery"}}}
    with awaitable_logs() as lines:
        async with running(options) as (_, ports):
            write(config_file, json.dumps(listing))
            refusal = await until_logged(lines, REFUSED)

            assert "dataLayer.discovery" in refusal["problem"]
            assert await picks(ports.grpc) == {A}


async def in_flight(ports: BoundPorts) -> float:
    """What plugins count."""
    return await value_of(ports, "llm_d_epp_inflight_requests{")


async def test_a_request_that_is_under_way_ends_by_the_configuration_it_began_with(
    options: ServeOptions, config_file: Path
) -> None:
    load = """
plugins: [{type: active-request-scorer}, {type: label-selector-filter, parameters: {%s}}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: active-request-scorer}]}]
dataLayer: {injectDefaults: false}
"""
    write(config_file, load % "matchLabels: {tier: gold}")
    with awaitable_logs() as lines:
        async with running(options) as (_, ports), gateway_client(ports.grpc) as client:
            exchange = client.exchange()
            await exchange.post(b'{"model":"m","prompt":"a"}')
            await exchange.picked()
            during = await in_flight(ports)
            write(config_file, load % "matchLabels: {tier: iron}")
            await until_logged(lines, IN_FORCE)
            kept = await in_flight(ports)
            await exchange.response_headers({":status": "200"})
            await exchange.answer()
            await exchange.response_body(b"{}", end=True)
            await exchange.answer()
            await exchange.half_close()

            assert during == kept == 1
            assert await in_flight(ports) == 0


async def test_oddities_are_told_once(options: ServeOptions, config_file: Path) -> None:
    write(config_file, ODD % 2)
    with awaitable_logs() as lines:
        async with running(options) as (_, ports):
            write(config_file, "# another version\n" + ODD % 2)
            told = [line for line in await all_until(lines, IN_FORCE) if line["event"] == ODDITY]

            texts = [line["problem"] for line in told]
            assert [text for text in texts if "is no scorer" in text]
            assert len(texts) == len(set(texts))
            assert await reloads(ports, "success") == 1


async def test_the_readmes_configuration_makes_one_prompt_go_round(
    pool_file: Path, config_file: Path
) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", read(ROOT / "README.md"), re.DOTALL)
    write(config_file, text)
    usual = options_for_tests(pool_file=pool_file, config_text=BUILT_IN)
    changed = options_for_tests(pool_file=pool_file, config_file=config_file)

    async with running(usual) as (_, ports):
        assert len(await picks(ports.grpc)) == 1
    async with running(changed) as (_, ports):
        assert await picks(ports.grpc) == {A, B}


async def test_what_a_changed_configuration_learns_of_an_endpoint_goes_with_it(
    options: ServeOptions, config_file: Path, pool_file: Path
) -> None:
    """Pitfall 40, by plugins that came later than the endpoint."""
    prefixes = "plugins: [{type: prefix-cache-scorer}]\ndataLayer: {injectDefaults: false}"

    async def cached(ports: BoundPorts) -> int:
        page = await (await get(ports.metrics, "/debug/plugins/state")).json()
        found: int = page["plugins"]["approx-prefix-cache-producer"]["state"]["totalPods"]
        return found

    with awaitable_logs() as logs:
        async with running(options) as (application, ports):
            write(config_file, prefixes)
            await until_logged(logs, IN_FORCE)
            (picked,) = await picks(ports.grpc)
            before = await cached(ports)
            left = "gpu-a" if picked == A else "gpu-b"
            write(pool_file, POOL.replace(f"- {{name: {left}", f"# {left}"))
            await eventually(lambda: len(application.snapshot().endpoints) == 1)
            after = await cached(ports)

    assert (before, after) == (1, 0)


async def test_the_state_page_lists_every_plugin(options: ServeOptions, config_file: Path) -> None:
    write(config_file, "plugins: [{type: prefix-cache-scorer, name: my-prefix}]")
    async with running(options) as (_, ports):
        document = await (await get(ports.metrics, "/debug/plugins/state")).json()
    page = document["plugins"]

    assert {
        "my-prefix",
        "approx-prefix-cache-producer",
        "max-score-picker",
        "single-profile-handler",
        "openai-parser",
        "metrics-data-source",
        "core-metrics-extractor",
        "utilization-detector",
    } <= set(page)
    assert page["my-prefix"] == {
        "name": "my-prefix",
        "type": "prefix-cache-scorer",
        "message": "plugin does not support state collection",
    }
    assert "state" in page["approx-prefix-cache-producer"]


async def test_a_profile_whose_filters_leave_nothing_is_answered_with_429(
    options: ServeOptions, config_file: Path
) -> None:
    write(config_file, BY_LABEL % "copper")
    async with running(options) as (_, ports):
        rejection = await answer(ports.grpc)

    assert (rejection.status, rejection.details) == (429, "epp_rejected_saturated")
