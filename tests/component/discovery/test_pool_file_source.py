from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from epp.datastore.datastore import Datastore
from epp.datastore.snapshot import Change
from epp.discovery.pool_file_source import PoolFileSource
from epp.framework.errors import ConfigError
from epp.support.file_watch import watch_file

MANIFEST = """
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: llama}
spec:
  selector: {matchLabels: {app: llama}}
  targetPorts: [{number: 8000}]
---
"""
BROKEN = "endpoints: [{"


def pool_text(*ips: str) -> str:
    entries = [f"- {{name: pod-{ip}, address: {ip}}}\n" for ip in ips]
    return MANIFEST + "endpoints:\n" + "".join(entries)


def write(path: Path, text: str) -> None:
    path.write_text(text)


def delete(path: Path) -> None:
    path.unlink()


class CountingObserver:
    """Counts, and wakes whoever waits for the world to look otherwise."""

    def __init__(self) -> None:
        self.loaded = 0
        self.failed = 0
        self.skipped = 0
        self._happened = asyncio.Event()

    def pool_file_loaded(self, *, skipped_entries: int) -> None:
        self.loaded += 1
        self.skipped = skipped_entries
        self._happened.set()

    def pool_file_failed(self) -> None:
        self.failed += 1
        self._happened.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                self._happened.clear()
                await self._happened.wait()

    async def until_failed_again(self) -> None:
        failed = self.failed
        await self.until(lambda: self.failed > failed)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "pool.yaml"
    path.write_text(pool_text("10.0.0.1"))
    return path


@pytest.fixture
def datastore() -> Datastore:
    return Datastore()


@pytest.fixture
def observer() -> CountingObserver:
    return CountingObserver()


@pytest.fixture
def source(path: Path, datastore: Datastore, observer: CountingObserver) -> PoolFileSource:
    quick_watch = partial(watch_file, quiet_seconds=0.02, check_seconds=0.1)
    return PoolFileSource(path, datastore, observer, watch=quick_watch)


@pytest.fixture
async def running(source: PoolFileSource) -> AsyncIterator[asyncio.Task[None]]:
    source.load()
    task = asyncio.ensure_future(source.run())
    yield task
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def ips(datastore: Datastore) -> list[str]:
    return [endpoint.ip for endpoint in datastore.snapshot().endpoints]


def has_ips(datastore: Datastore, *expected: str) -> bool:
    return ips(datastore) == list(expected)


def never_empty(datastore: Datastore) -> list[Change]:
    """Changes after which there was no endpoint; stays empty when all is well."""
    empty: list[Change] = []

    def listener(change: Change) -> None:
        if not change.new.endpoints:
            empty.append(change)

    datastore.subscribe(listener)
    return empty


def test_loading_fills_and_syncs_the_datastore_in_one_change(
    source: PoolFileSource, datastore: Datastore
) -> None:
    changes: list[Change] = []
    datastore.subscribe(changes.append)

    source.load()

    (change,) = changes
    assert change.new.synced
    assert change.new.pool is not None
    assert ips(datastore) == ["10.0.0.1"]


@pytest.mark.parametrize("text", [None, BROKEN, ""], ids=["missing", "broken", "empty"])
def test_a_start_without_a_usable_file_is_an_error_that_names_it(
    source: PoolFileSource, datastore: Datastore, path: Path, text: str | None
) -> None:
    if text is None:
        path.unlink()
    else:
        path.write_text(text)

    with pytest.raises(ConfigError, match=str(path)):
        source.load()

    assert not datastore.snapshot().synced


async def test_a_change_between_load_and_watch_is_not_missed(
    source: PoolFileSource, datastore: Datastore, observer: CountingObserver, path: Path
) -> None:
    source.load()
    write(path, pool_text("10.0.0.2"))

    task = asyncio.ensure_future(source.run())

    await observer.until(partial(has_ips, datastore, "10.0.0.2"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.usefixtures("running")
async def test_editing_in_place_is_followed(
    datastore: Datastore, observer: CountingObserver, path: Path
) -> None:
    empty = never_empty(datastore)
    kept = datastore.snapshot().endpoints[0]

    write(path, pool_text("10.0.0.1", "10.0.0.2"))

    await observer.until(partial(has_ips, datastore, "10.0.0.1", "10.0.0.2"))
    assert datastore.snapshot().endpoints[0] is kept
    assert empty == []


@pytest.mark.usefixtures("running")
async def test_a_file_moved_over_the_old_one_is_followed_again_and_again(
    datastore: Datastore, observer: CountingObserver, path: Path
) -> None:
    for ip in ("10.0.0.2", "10.0.0.3", "10.0.0.4"):
        replacement = path.with_name("replacement")
        write(replacement, pool_text(ip))
        replacement.rename(path)
        await observer.until(partial(has_ips, datastore, ip))


@pytest.mark.usefixtures("running")
async def test_a_file_that_says_the_same_is_not_loaded_again(
    datastore: Datastore, observer: CountingObserver, path: Path
) -> None:
    for ip in ("10.0.0.1", "10.0.0.2"):
        replacement = path.with_name("replacement")
        write(replacement, pool_text(ip))
        replacement.rename(path)

    await observer.until(partial(has_ips, datastore, "10.0.0.2"))
    assert observer.loaded == 2


@pytest.mark.usefixtures("running")
async def test_truncating_before_writing_never_empties_the_pool(
    datastore: Datastore, observer: CountingObserver, path: Path
) -> None:
    empty = never_empty(datastore)

    write(path, "")
    await observer.until_failed_again()
    assert ips(datastore) == ["10.0.0.1"]
    write(path, pool_text("10.0.0.2"))

    await observer.until(partial(has_ips, datastore, "10.0.0.2"))
    assert empty == []


@pytest.mark.usefixtures("running")
async def test_a_broken_file_keeps_the_last_good_one_until_it_is_mended(
    datastore: Datastore, observer: CountingObserver, path: Path
) -> None:
    with capture_logs() as lines:
        write(path, BROKEN)
        await observer.until_failed_again()
        snapshot = datastore.snapshot()
        write(path, BROKEN + "   ")
        await observer.until_failed_again()
        assert datastore.snapshot() is snapshot
        assert ips(datastore) == ["10.0.0.1"]
        loaded = observer.loaded
        write(path, pool_text("10.0.0.1"))
        await observer.until(lambda: observer.loaded > loaded)

    events = [line["event"] for line in lines if line["log_level"] in ("error", "info")]
    assert "pool file is broken, the last good one stays" in events
    assert "pool file is usable again" in events


@pytest.mark.usefixtures("running")
async def test_the_same_trouble_is_logged_once(
    datastore: Datastore, observer: CountingObserver, path: Path
) -> None:
    with capture_logs() as lines:
        for attempt in range(3):
            write(path, "# " + "x" * attempt)
            await observer.until_failed_again()

    assert [line["log_level"] for line in lines] == ["error"]


@pytest.mark.usefixtures("running")
async def test_a_deleted_file_keeps_the_pool_and_comes_back(
    datastore: Datastore, observer: CountingObserver, path: Path
) -> None:
    delete(path)
    await observer.until_failed_again()
    assert ips(datastore) == ["10.0.0.1"]

    write(path, pool_text("10.0.0.2"))

    await observer.until(partial(has_ips, datastore, "10.0.0.2"))


async def test_what_is_skipped_is_a_problem_until_it_is_mended(
    datastore: Datastore, observer: CountingObserver, path: Path
) -> None:
    source = PoolFileSource(path, datastore, observer)
    write(path, pool_text("10.0.0.1", "gpu-b.lab"))
    source.load()

    first, second = str(source.problem).splitlines()
    assert first == f"pool file {path}: entries skipped: 1"
    assert second.startswith("  endpoints[1] (pod-gpu-b.lab): address: ")

    write(path, pool_text("10.0.0.1"))
    source.load()
    assert source.problem is None


@pytest.mark.usefixtures("running")
async def test_a_bad_entry_is_skipped_counted_and_logged(
    datastore: Datastore, observer: CountingObserver, path: Path
) -> None:
    with capture_logs() as lines:
        write(path, pool_text("10.0.0.1", "gpu-b.lab", "10.0.0.3"))
        await observer.until(partial(has_ips, datastore, "10.0.0.1", "10.0.0.3"))

    assert observer.skipped == 1
    (problem,) = [line["problem"] for line in lines if line["event"] == "pool file entry skipped"]
    assert problem.startswith("endpoints[1] (pod-gpu-b.lab): address: ")


async def test_a_config_map_volume_is_followed(
    tmp_path: Path, datastore: Datastore, observer: CountingObserver
) -> None:
    def publish(version: str, text: str) -> None:
        directory = tmp_path / version
        directory.mkdir()
        (directory / "pool.yaml").write_text(text)
        (tmp_path / "..data_tmp").symlink_to(version)
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")

    publish("..v1", pool_text("10.0.0.1"))
    path = tmp_path / "pool.yaml"
    path.symlink_to("..data/pool.yaml")
    quick_watch = partial(watch_file, quiet_seconds=0.02, check_seconds=0.1)
    source = PoolFileSource(path, datastore, observer, watch=quick_watch)
    source.load()
    task = asyncio.ensure_future(source.run())

    publish("..v2", pool_text("10.0.0.2"))
    await observer.until(partial(has_ips, datastore, "10.0.0.2"))
    publish("..v3", pool_text("10.0.0.3"))
    await observer.until(partial(has_ips, datastore, "10.0.0.3"))

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_following_ends_by_cancelling(running: asyncio.Task[None]) -> None:
    await asyncio.sleep(0)

    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
