"""Looks, at intervals of CPU time, at what the main thread is doing.

Unlike cProfile this costs nothing per call, so that small functions look no dearer than they are.
"""

from __future__ import annotations

import dis
import signal
from collections import Counter
from dataclasses import dataclass, field
from types import CodeType, FrameType

INTERVAL_SECONDS = 0.002
LOOP = "event loop and system calls"


@dataclass(slots=True)
class Samples:
    """How often a function was found running itself, and how often it or what it had called."""

    own: Counter[str] = field(default_factory=Counter)
    total: Counter[str] = field(default_factory=Counter)
    count: int = 0


class Sampler:
    """Collects from `start` to `stop`, in the main thread."""

    def __init__(self) -> None:
        self.samples = Samples()
        self._is_looking = False

    def start(self) -> None:
        """Look every INTERVAL_SECONDS, or as often as the kernel's clock ticks."""
        signal.signal(signal.SIGPROF, self._on_signal)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL_SECONDS, INTERVAL_SECONDS)

    def stop(self) -> None:
        """Look no more."""
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _on_signal(self, _: int, frame: FrameType | None) -> None:
        if self._is_looking:  # the time that looking takes is not the server's
            return
        self._is_looking = True
        self._look(frame)
        self._is_looking = False

    def _look(self, frame: FrameType | None) -> None:
        # Python tells of a signal at the next call or turn of a loop. A function that has only just
        # been entered was not what ran: its caller did, or the loop where that is no Python.
        if frame is not None and _is_just_entered(frame):
            frame = frame.f_back
        names = [] if frame is not None else [LOOP]
        while frame is not None:
            names.append(name_of(frame.f_code))
            frame = frame.f_back
        self.samples.count += 1
        self.samples.own[names[0]] += 1
        self.samples.total.update(set(names))


def name_of(code: CodeType) -> str:
    """File and name of a function; whoever runs the event loop stands for it."""
    if code.co_filename.endswith("asyncio/runners.py"):
        return LOOP
    return f"{code.co_filename}:{code.co_qualname}"


def _is_just_entered(frame: FrameType) -> bool:
    return (
        dis.opname[frame.f_code.co_code[frame.f_lasti]] == "RESUME" if frame.f_lasti >= 0 else True
    )
