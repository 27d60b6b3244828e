from __future__ import annotations

from pathlib import Path

import pytest

from epp.diagnosis.checks.limits import Limits, look_at_limits, read_limits
from epp.diagnosis.doctor_findings import Verdict
from tests.fakes.doctor_cases import doctor_case, verdicts

GIBIBYTE = 2**30
ENOUGH = Limits(open_files=65536, memory_bytes=3 * GIBIBYTE, cores=None)


async def test_the_limits_of_our_deployment_are_enough() -> None:
    findings = await look_at_limits(doctor_case(), ENOUGH)

    assert set(verdicts(findings).values()) == {Verdict.OK}


@pytest.mark.parametrize(
    ("limits", "check", "verdict"),
    [
        (ENOUGH._replace(open_files=1024), "limits-open-files", Verdict.WARNING),
        (ENOUGH._replace(memory_bytes=GIBIBYTE // 2), "limits-memory", Verdict.FAULT),
        (ENOUGH._replace(memory_bytes=GIBIBYTE + 1), "limits-memory", Verdict.WARNING),
        (ENOUGH._replace(cores=0.5), "limits-cpu", Verdict.WARNING),
        (ENOUGH._replace(cores=2.0), "limits-cpu", Verdict.OK),
        (Limits(None, None, None), "limits-memory", Verdict.OK),
    ],
)
async def test_each_limit_is_judged(limits: Limits, check: str, verdict: Verdict) -> None:
    findings = await look_at_limits(doctor_case(), limits)

    assert verdicts(findings)[check] is verdict


async def test_memory_is_compared_with_what_the_flags_allow() -> None:
    case = doctor_case(max_buffered_bytes=2**20, max_request_body_bytes=2**20, max_streams=100)

    findings = await look_at_limits(case, ENOUGH._replace(memory_bytes=GIBIBYTE // 4))

    assert verdicts(findings)["limits-memory"] is Verdict.OK


async def test_another_machines_limits_are_not_the_pickers() -> None:
    case = doctor_case(pool_file=None, pool_name="pool")

    findings = await look_at_limits(case, ENOUGH)

    assert set(verdicts(findings).values()) == {Verdict.SKIPPED}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_limits_of_control_groups_are_read_in_both_versions(tmp_path: Path) -> None:
    second = write(
        tmp_path / "2",
        {
            "proc/self/cgroup": "0::/kubepods/pod1\n",
            "sys/fs/cgroup/kubepods/memory.max": "4294967296\n",
            "sys/fs/cgroup/kubepods/pod1/memory.max": "1073741824\n",
            "sys/fs/cgroup/kubepods/pod1/cpu.max": "150000 100000\n",
        },
    )
    first = write(
        tmp_path / "1",
        {
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
    )

    assert read_limits(second)[1:] == (GIBIBYTE, 1.5)
    assert read_limits(first)[1:] == (GIBIBYTE // 2, 0.5)


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"proc/self/cgroup": "0::/../../x\n", "sys/fs/cgroup/memory.max": "max\n"},
        {"sys/fs/cgroup/cpu.max": "max 100000\n"},
        {"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"},
        {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n"},
        {"sys/fs/cgroup/memory.max": "a lot\n", "sys/fs/cgroup/cpu.max": "\n"},
    ],
)
def test_no_limit_and_nonsense_are_none(tmp_path: Path, files: dict[str, str]) -> None:
    assert read_limits(write(tmp_path, files))[1:] == (None, None)
