"""Child processes with an owner: their output is read, their death is noticed, none outlives it."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from epp.framework.errors import PickerError

KEPT_LINES = 40
MAX_LINE_BYTES = 8192
READ_BYTES = 1 << 16


class ChildDied(PickerError):
    """A child ended that nobody had told to."""

    def __init__(self, name: str, return_code: int, output: Sequence[str]) -> None:
        ending = f"was killed by signal {-return_code}" if return_code < 0 else "ended"
        code = "" if return_code < 0 else f" with exit code {return_code}"
        lines = "".join(f"\n  {line}" for line in output)
        super().__init__(f"{name} {ending}{code}; its last output:{lines or ' none'}")


class ChildProcess:
    """One program run beside this one.

    It gets a session of its own, so that a terminal's Ctrl-C reaches its owner alone. `lifeline`
    gives it a standard input that closes when the owner is gone, even by SIGKILL.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        lifeline: bool = False,
        ready_text: str | None = None,
        show: Callable[[str], None] | None = None,
    ) -> None:
        self.name = name
        self.ready = asyncio.Event()
        """Set by the first line of output that contains `ready_text`."""
        self._command = command
        self._lifeline = lifeline
        self._ready_text = ready_text
        self._show = show
        self._output: deque[str] = deque(maxlen=KEPT_LINES)
        self._process: Process | None = None
        self._is_stopping = False

    async def start(self) -> None:
        """Start the program; `watch` and `stop` belong after it."""
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=PIPE if self._lifeline else DEVNULL,
                stdout=PIPE,
                stderr=STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise PickerError(
                f"{self.name}: {self._command[0]} can't be started: {error.strerror}"
            ) from error

    async def watch(self) -> None:
        """Read its output for as long as it runs; raises `ChildDied` unless `stop` ended it."""
        process = self._started()
        assert process.stdout is not None
        rest = b""
        while chunk := await process.stdout.read(READ_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._take(line)
            if len(rest) > MAX_LINE_BYTES:
                self._take(rest)
                rest = b""
        if rest:
            self._take(rest)
        return_code = await process.wait()
        if not self._is_stopping:
            raise ChildDied(self.name, return_code, list(self._output))

    async def stop(self, grace_seconds: float) -> None:
        """Ask it to end, and make it end when the grace is over."""
        process = self._started()
        self._is_stopping = True
        if process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(grace_seconds):
                await process.wait()
        except TimeoutError:
            pass
        finally:
            self.kill()
        await process.wait()

    def kill(self) -> None:
        """End it at once."""
        self._is_stopping = True
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    def _started(self) -> Process:
        if self._process is None:
            raise ValueError(f"{self.name} was not started")
        return self._process

    def _take(self, raw: bytes) -> None:
        line = raw[:MAX_LINE_BYTES].decode("utf-8", "replace").rstrip()
        self._output.append(line)
        if self._ready_text is not None and self._ready_text in line:
            self.ready.set()
        if self._show is not None:
            self._show(f"[{self.name}] {line}")


class Household:
    """Child processes and what else ends with them, last started first; one death ends it all.

    An async context: its body is cancelled when a child dies, and `ChildDied` leaves it.
    """

    def __init__(self, grace_seconds: float) -> None:
        self._grace_seconds = grace_seconds
        self._children: list[ChildProcess] = []
        self._watches = asyncio.TaskGroup()
        self._endings = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._watches.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._endings.aclose()
        finally:
            await self._watches.__aexit__(kind, error, trace)

    async def start(self, *children: ChildProcess) -> None:
        """Start children, own them from then on, and end them together."""
        started: list[ChildProcess] = []
        self._endings.push_async_callback(self._stop, started)
        for child in children:
            await child.start()
            started.append(child)
            self._children.append(child)
            self._watches.create_task(child.watch(), name=child.name)

    def at_end(self, call: Callable[[], Awaitable[None]]) -> None:
        """Call when everything started later has ended."""
        self._endings.push_async_callback(call)

    async def _stop(self, children: Iterable[ChildProcess]) -> None:
        async with asyncio.TaskGroup() as stops:
            for child in children:
                stops.create_task(child.stop(self._grace_seconds))

    def kill(self) -> None:
        """End all children at once."""
        for child in self._children:
            child.kill()
