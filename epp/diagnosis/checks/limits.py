"""Do the limits of this container or machine leave the picker what its flags promise?"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from epp.diagnosis.doctor_case import Case
from epp.diagnosis.doctor_findings import Finding, fault, ok, skipped, warning
from epp.support.quantities import format_quantity

LIMITS = "limits"
OPEN_FILES, MEMORY, CPU = "limits-open-files", "limits-memory", "limits-cpu"
FEW_OPEN_FILES = 4096
"""Each gateway connection and each endpoint takes one; a quarter is kept for gateways."""
STREAM_BYTES = 50 * 2**10
"""What an open stream may take beside its body; that of --max-streams is planned for."""
BASE_BYTES = 200 * 2**20
"""The process itself with a pool of some hundred endpoints."""
LEAST_CORES = 1.0
_MEBIBYTE = 2**20


class Limits(NamedTuple):
    """What is left to a process here; None: no limit, or not to be seen."""

    open_files: int | None
    memory_bytes: int | None
    cores: float | None


def read_limits(root: Path = Path("/")) -> Limits:
    """Limits of this process, and of the control group it is in (v2, else v1)."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    groups = _groups(root)
    memory = [_number(_text(group, "memory.max", "memory.limit_in_bytes")) for group in groups]
    cores = [_cores(group) for group in groups]
    return Limits(
        open_files=None if hard == resource.RLIM_INFINITY else hard,
        memory_bytes=min((each for each in memory if each is not None), default=None),
        cores=min((each for each in cores if each is not None), default=None),
    )


async def look_at_limits(case: Case, limits: Limits | None = None) -> Iterable[Finding]:
    """Open files, memory and CPU, as they are where this runs."""
    if case.options.pool.is_in_cluster and not case.is_in_pod:
        text = "this is not the picker's container"
        return [skipped(OPEN_FILES, text), skipped(MEMORY, text), skipped(CPU, text)]
    if limits is None:
        limits = await asyncio.to_thread(read_limits)
    return [_open_files(limits), _memory(case, limits), _cpu(limits)]


def _open_files(limits: Limits) -> Finding:
    if limits.open_files is None or limits.open_files >= FEW_OPEN_FILES:
        return ok(OPEN_FILES, f"limit {limits.open_files}" if limits.open_files else "no limit")
    text = f"limit {limits.open_files}: connections of gateways and scrapes may need more"
    return warning(OPEN_FILES, text, f"raise the hard limit (ulimit -Hn) to {FEW_OPEN_FILES}")


def _memory(case: Case, limits: Limits) -> Finding:
    bodies = case.options.max_buffered_bytes
    needed = bodies + case.options.max_streams * STREAM_BYTES + BASE_BYTES
    if limits.memory_bytes is None:
        return ok(MEMORY, f"no limit; the flags allow {_in_mebibytes(needed)}")
    has = _in_mebibytes(limits.memory_bytes)
    if limits.memory_bytes >= needed:
        return ok(MEMORY, f"limit {has}; the flags allow {_in_mebibytes(needed)}")
    advice = (
        f"give it {_in_mebibytes(needed)} (--max-buffered-bytes, {STREAM_BYTES // 1024} KiB for"
        " each of --max-streams, and the process), or lower these flags"
    )
    if limits.memory_bytes < bodies:
        text = f"limit {has} is below --max-buffered-bytes {format_quantity(bodies)}"
        return fault(MEMORY, f"{text}: the picker is killed before it refuses a body", advice)
    return warning(MEMORY, f"limit {has} is below what the flags allow", advice)


def _cpu(limits: Limits) -> Finding:
    if limits.cores is None:
        return ok(CPU, "no limit")
    if limits.cores >= LEAST_CORES:
        return ok(CPU, f"limit {limits.cores:g} cores", "without a limit nothing is throttled")
    text = f"limit {limits.cores:g} cores: a throttled picker holds up every request"
    return warning(CPU, text, "take the limit away, or give it a whole core")


def _groups(root: Path) -> list[Path]:
    """The control group of this process and those around it, as they are mounted here."""
    mounts = [root / "sys/fs/cgroup"]
    mounts += [mounts[0] / controller for controller in ("memory", "cpu")]
    own = [line.rpartition(":")[2] for line in _read(root / "proc/self/cgroup").splitlines()]
    groups = list(mounts)
    for path in own:
        parts = Path(path.lstrip("/")).parts
        if ".." not in parts:
            groups += [
                mount.joinpath(*parts[:depth])
                for mount in mounts
                for depth in range(1, len(parts) + 1)
            ]
    return groups


def _text(group: Path, *names: str) -> str:
    return next(filter(None, (_read(group / name) for name in names)), "")


def _cores(group: Path) -> float | None:
    quota, _, period = _read(group / "cpu.max").partition(" ")
    if not quota:
        quota, period = _read(group / "cpu.cfs_quota_us"), _read(group / "cpu.cfs_period_us")
    share, whole = _number(quota), _number(period)
    return share / whole if share and whole else None


def _number(text: str) -> int | None:
    # Without a limit v1 writes -1, or almost the largest number there is.
    text = text.strip()
    return int(text) if text.isdigit() and int(text) < 2**60 else None


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeError):
        return ""


def _in_mebibytes(size: int) -> str:
    return f"{size // _MEBIBYTE}Mi"
