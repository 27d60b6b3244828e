from __future__ import annotations

from pathlib import Path

import pytest

from tests.lock_drift import BUILD_LOCK, DEVELOPMENT_LOCK, main, problems

PROJECT = """
[build-system]
requires = ["builder>=3"]
[project]
dependencies = ["Web_Server>=3.1"]
[project.optional-dependencies]
standalone = ["proxy[fast]==1.4"]
simulator = []
zstd = ["zstd>=1"]
cel = ["cel>=2"]
otlp = ["spans>=1"]
[dependency-groups]
dev = ["checker<2"]
"""
PINS = {
    "requirements.lock": {"web-server": "3.2", "cel": "2.0", "spans": "1.4"},
    "requirements-standalone.lock": {"web-server": "3.2", "proxy": "1.4.0"},
    BUILD_LOCK: {"builder": "3.1"},
    DEVELOPMENT_LOCK: {
        "web-server": "3.2",
        "proxy": "1.4.0",
        "zstd": "1.1",
        "cel": "2.0",
        "spans": "1.4",
        "checker": "1.9",
        "builder": "3.1",
    },
}


def write(folder: Path, changes: dict[str, dict[str, str]] | None = None) -> None:
    (folder / "pyproject.toml").write_text(PROJECT)
    for name, pins in PINS.items():
        versions = pins | (changes or {}).get(name, {})
        lines = [
            f"{package}=={pin} \\\n    --hash=sha256:00\n" for package, pin in versions.items()
        ]
        (folder / name).write_text("".join(lines))


def test_locks_that_satisfy_the_project_and_agree_have_no_problem(tmp_path: Path) -> None:
    write(tmp_path)

    assert problems(tmp_path) == []
    assert main(tmp_path) == 0


def test_a_pin_outside_of_what_is_required_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, {DEVELOPMENT_LOCK: {"checker": "2.0"}})

    assert main(tmp_path) == 1
    assert capsys.readouterr().err.splitlines() == [
        "requirements-dev.lock: has checker 2.0, required is checker<2",
        "pyproject.toml and the lock files differ; run: make lock",
    ]


def test_a_requirement_without_a_pin_or_past_it_is_named(tmp_path: Path) -> None:
    write(tmp_path)
    changed = PROJECT.replace('"proxy[fast]==1.4"', '"proxy==1.4", "another>=1"')
    changed = changed.replace("builder>=3", "builder>=4")
    (tmp_path / "pyproject.toml").write_text(changed)

    assert problems(tmp_path) == [
        "requirements-standalone.lock: lacks another>=1",
        "requirements-dev.lock: lacks another>=1",
        "requirements-build.lock: has builder 3.1, required is builder>=4",
    ]


def test_lock_files_with_different_versions_are_named(tmp_path: Path) -> None:
    write(tmp_path, {"requirements.lock": {"web-server": "3.3", "only-here": "1"}})

    assert problems(tmp_path) == [
        "requirements.lock: has web-server 3.3, requirements-dev.lock has 3.2",
        "requirements.lock: has only-here 1, requirements-dev.lock has nothing",
    ]


def test_a_package_may_have_a_version_for_each_platform(tmp_path: Path) -> None:
    write(tmp_path)
    for name in PINS:
        with (tmp_path / name).open("a") as lock:
            lock.write("zlib==1 ; sys_platform == 'linux' \\\n    --hash=sha256:00\n")
            lock.write("zlib==2 ; sys_platform != 'linux' \\\n    --hash=sha256:00\n")

    assert problems(tmp_path) == []


@pytest.mark.parametrize(
    "line", ["web-server>=3 --hash=sha256:00", "web-server==3.2", "--index-url https://x.test"]
)
def test_a_line_that_pins_nothing_is_an_error(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path)
    (tmp_path / "requirements.lock").write_text(f"{line}\n")

    assert main(tmp_path) == 1
    assert repr(line) in capsys.readouterr().err
