from __future__ import annotations

import asyncio
import os
import signal
import sys
import textwrap
from collections.abc import Callable

import pytest

from epp.framework.errors import PickerError
from epp.standalone.processes import ChildDied, ChildProcess, Household
from epp.standalone.tether import tethered


def python(code: str) -> list[str]:
    return [sys.executable, "-u", "-c", textwrap.dedent(code)]


async def started(child: ChildProcess) -> asyncio.Task[None]:
    await child.start()
    watching = asyncio.create_task(child.watch())
    await child.ready.wait()
    return watching


async def test_a_child_that_ends_by_itself_is_reported_with_its_output() -> None:
    child = ChildProcess("worker", python("print('out of luck'); raise SystemExit(3)"))
    await child.start()

    with pytest.raises(ChildDied, match="worker ended with exit code 3") as raised:
        await child.watch()

    assert "out of luck" in str(raised.value)


async def test_a_killed_child_is_reported_with_its_signal() -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    child = ChildProcess("worker", python(code))
    await child.start()

    with pytest.raises(ChildDied, match="worker was killed by signal 9"):
        await child.watch()


async def test_a_stopped_child_is_no_casualty() -> None:
    child = ChildProcess(
        "worker", python("print('up'); import time; time.sleep(60)"), ready_text="up"
    )
    watching = await started(child)

    await child.stop(grace_seconds=30)

    await watching


async def test_a_child_deaf_to_sigterm_is_killed() -> None:
    code = """
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print('up')
        time.sleep(60)
    """
    child = ChildProcess("worker", python(code), ready_text="up")
    watching = await started(child)

    await child.stop(grace_seconds=0.05)

    await watching


async def test_a_child_is_out_of_reach_of_the_terminals_signals() -> None:
    lines: list[str] = []
    code = "import os; print('group', os.getpgrp()); print('up'); input()"
    child = ChildProcess("worker", python(code), lifeline=True, ready_text="up", show=lines.append)
    watching = await started(child)

    await child.stop(grace_seconds=30)
    await watching

    group = int(lines[0].removeprefix("[worker] group "))
    assert group != os.getpgrp()


async def test_output_without_line_ends_is_bounded() -> None:
    code = "import sys; sys.stdout.write('x' * 300_000)"
    child = ChildProcess("worker", python(code))
    await child.start()

    with pytest.raises(ChildDied) as raised:
        await child.watch()

    assert len(str(raised.value)) < 300_000


async def test_a_tethered_program_that_does_not_exist_is_named() -> None:
    child = ChildProcess("worker", tethered(["/does/not/exist"]))
    await child.start()

    with pytest.raises(ChildDied, match="/does/not/exist can't be started"):
        await child.watch()


async def test_a_program_that_does_not_exist_is_named() -> None:
    child = ChildProcess("worker", ["/does/not/exist"])

    with pytest.raises(PickerError, match="worker: /does/not/exist can't be started"):
        await child.start()


@pytest.mark.parametrize(
    "arguments",
    [
        'python("import sys; sys.stdin.read()"), lifeline=True',
        'tethered(python("import time; time.sleep(60)"))',
    ],
    ids=["lifeline", "tether"],
)
async def test_a_child_does_not_outlive_an_owner_that_is_killed(arguments: str) -> None:
    owner_code = f"""
        import asyncio, sys
        from epp.standalone.processes import ChildProcess
        from epp.standalone.tether import tethered

        def python(code):
            say = "import os; print('pid', os.getpid(), flush=True); "
            return [sys.executable, "-c", say + code]

        def show(line):
            print(line, flush=True)

        async def main():
            child = ChildProcess("worker", {arguments}, show=show)
            await child.start()
            await child.watch()

        asyncio.run(main())
    """
    owner = await asyncio.create_subprocess_exec(
        *python(owner_code), stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    pid = int((await owner.stdout.readline()).split()[-1])
    child = os.pidfd_open(pid)
    try:
        owner.send_signal(signal.SIGKILL)
        await owner.wait()

        await readable(child)
    finally:
        os.close(child)


async def readable(descriptor: int) -> None:
    """A pidfd is readable once its process has ended."""
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, done.set)
    try:
        await done.wait()
    finally:
        loop.remove_reader(descriptor)


async def test_one_death_ends_the_household() -> None:
    ended: list[str] = []

    async def end() -> None:
        ended.append("guest")

    async def live() -> None:
        async with Household(grace_seconds=30) as household:
            household.at_end(end)
            await household.start(sleeper("survivor"))
            await household.start(ChildProcess("victim", python("raise SystemExit(7)")))
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as raised:
        await live()

    (death,) = raised.value.exceptions
    assert isinstance(death, ChildDied)
    assert "victim ended with exit code 7" in str(death)
    assert ended == ["guest"]


async def test_a_household_ends_in_reverse_order() -> None:
    lines: list[str] = []
    alive: list[bool] = []

    async def end() -> None:
        alive.extend(is_alive(int(line.split()[-1])) for line in lines)

    async with Household(grace_seconds=30) as household:
        first, last = sleeper("first", lines.append), sleeper("last", lines.append)
        await household.start(first)
        await first.ready.wait()
        household.at_end(end)
        await household.start(last)
        await last.ready.wait()

    assert alive == [True, False]


async def test_an_error_in_the_body_stops_the_children() -> None:
    lines: list[str] = []

    async def live() -> None:
        async with Household(grace_seconds=30) as household:
            child = sleeper("worker", lines.append)
            await household.start(child)
            await child.ready.wait()
            raise PickerError("no more")

    with pytest.raises(ExceptionGroup) as raised:
        await live()

    assert [str(error) for error in raised.value.exceptions] == ["no more"]
    assert not is_alive(int(lines[0].split()[-1]))


def sleeper(name: str, show: Callable[[str], None] | None = None) -> ChildProcess:
    code = "import os, time; print('up', os.getpid()); time.sleep(60)"
    return ChildProcess(name, python(code), ready_text="up", show=show)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
