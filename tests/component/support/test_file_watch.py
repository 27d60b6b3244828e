from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest

from epp.support.file_watch import watch_file

QUICK = {"quiet_seconds": 0.02, "check_seconds": 0.1}

Watch = AsyncGenerator[None, None]


def write(path: Path, text: str) -> None:
    path.write_text(text)


@pytest.fixture
def watched_file(tmp_path: Path) -> Path:
    directory = tmp_path / "volume"
    directory.mkdir()
    path = directory / "pool.yaml"
    write(path, "first")
    return path


@pytest.fixture
async def watch(watched_file: Path) -> AsyncIterator[Watch]:
    watch = watch_file(watched_file, **QUICK)
    await anext(watch)
    yield watch
    await watch.aclose()


async def test_a_change_right_after_the_first_yield_is_seen(
    watched_file: Path, watch: Watch
) -> None:
    write(watched_file, "second")

    await anext(watch)


async def test_changes_are_seen_one_after_the_other(watched_file: Path, watch: Watch) -> None:
    for text in ("second", "third one", "fourth"):
        write(watched_file, text)
        await anext(watch)


async def test_a_file_replaced_by_rename_is_seen(watched_file: Path, watch: Watch) -> None:
    replacement = watched_file.with_name("new")
    write(replacement, "first")

    replacement.rename(watched_file)

    await anext(watch)


async def test_a_swapped_symlink_of_a_kubernetes_volume_is_seen(tmp_path: Path) -> None:
    for version in ("one", "two"):
        (tmp_path / version).mkdir()
        write(tmp_path / version / "tls.crt", version)
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "tls.crt").symlink_to("..data/tls.crt")
    watch = watch_file(tmp_path / "tls.crt", **QUICK)
    await anext(watch)

    (tmp_path / "..data_tmp").symlink_to("two")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")

    await anext(watch)
    assert (tmp_path / "tls.crt").read_text() == "two"
    await watch.aclose()


async def test_a_directory_made_anew_is_watched_again(watched_file: Path, watch: Watch) -> None:
    shutil.rmtree(watched_file.parent)
    await anext(watch)

    watched_file.parent.mkdir()
    write(watched_file, "again")
    await anext(watch)

    write(watched_file, "and again")
    await anext(watch)


async def test_a_file_that_does_not_exist_yet_is_awaited(tmp_path: Path) -> None:
    path = tmp_path / "later" / "pool.yaml"
    watch = watch_file(path, **QUICK)
    await anext(watch)

    path.parent.mkdir()
    write(path, "here")

    await anext(watch)
    await watch.aclose()


async def test_a_neighbour_in_the_directory_is_none_of_its_business(
    watched_file: Path, watch: Watch
) -> None:
    neighbour = watched_file.with_name("neighbour")
    neighbours_watch = watch_file(neighbour, **QUICK)
    await anext(neighbours_watch)
    next_change = asyncio.ensure_future(anext(watch))

    for text in ("noise", "more noise"):
        write(neighbour, text)
        await anext(neighbours_watch)

    assert not next_change.done()
    write(watched_file, "signal")
    await next_change
    await neighbours_watch.aclose()


async def test_cancelling_the_user_ends_the_watch(watched_file: Path) -> None:
    started = asyncio.Event()

    async def use() -> None:
        async for _ in watch_file(watched_file, **QUICK):
            started.set()

    user = asyncio.create_task(use())
    await started.wait()

    user.cancel()

    with pytest.raises(asyncio.CancelledError):
        await user
