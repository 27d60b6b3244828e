"""The Dockerfile without an engine: its invariants, and its build steps in a folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from epp import __version__
from epp.support.revision import REVISION_VARIABLE

ROOT = Path(__file__).parents[3]
RUNTIME_FOLDER = "/opt/epp"
GOES_BY_CONTENTS = (0b11).to_bytes(4, "little")
"""The flags of bytecode that holds a hash of its source rather than its date, by PEP 552."""

Steps = list[tuple[str, str]]


def stages() -> list[Steps]:
    """Return the instructions of each stage with their arguments."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    found: list[Steps] = []
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        instruction, _, argument = line.partition(" ")
        if instruction == "FROM":
            found.append([])
        if found and instruction:
            found[-1].append((instruction, argument))
    return found


def test_the_image_serves_as_a_user_without_a_name() -> None:
    runtime = dict(stages()[-1])

    assert json.loads(runtime["ENTRYPOINT"]) == ["epp", "serve"]
    assert runtime["USER"] == "65532:65532"
    assert runtime["EXPOSE"].split() == ["9002", "9003", "9090"]
    assert runtime["COPY"] == f"--from=builder {RUNTIME_FOLDER} {RUNTIME_FOLDER}"


def test_the_image_sets_a_home_that_not_every_runtime_gives_a_user_without_a_name() -> None:
    # The Kubernetes client asks for it when it is loaded.
    assert ("ENV", "HOME=/") in stages()[-1]


def test_the_image_knows_the_commit_it_was_built_of() -> None:
    runtime = stages()[-1]

    assert ("ARG", 'REVISION=""') in runtime
    assert ("ENV", f"{REVISION_VARIABLE}=${{REVISION}}") in runtime


def test_whatever_comes_from_a_registry_is_checked_against_a_lock() -> None:
    installs = [step for stage in stages() for _, step in stage if "pip" in step.split()[:1]]

    assert len(installs) == 3
    for install in installs:
        assert "--require-hashes -r requirements" in install or "--no-index --no-deps" in install


def test_bytecode_of_the_standard_library_is_part_of_the_image() -> None:
    # python:*-slim comes without: every start would compile it, and could keep nothing of it.
    (compiled,) = (command for step, command in stages()[-1] if step == "RUN")

    assert compiled.startswith("python -m compileall -q --invalidation-mode checked-hash ")
    assert compiled.endswith(" /usr/local/lib/python3*")


def test_what_is_copied_is_not_ignored() -> None:
    builder = stages()[0]
    copied = {name for step, names in builder if step == "COPY" for name in names.split()[:-1]}

    ignored, *exceptions = (ROOT / ".dockerignore").read_text().split()
    assert ignored == "*"
    assert copied == {name[1:] for name in exceptions if name.startswith("!")}


@pytest.mark.e2e
def test_the_build_steps_make_an_installation_that_runs(tmp_path: Path) -> None:
    source = tmp_path / "src"
    source.mkdir()
    runtime = tmp_path / "runtime"

    for instruction, argument in stages()[0]:
        if instruction == "COPY":
            *names, target = argument.split()
            copy(names, source / target)
        if instruction == "RUN":
            run(argument.replace(RUNTIME_FOLDER, str(runtime)), source)
            share_installed_packages(runtime)

    assert run(f"{runtime}/bin/epp version", tmp_path).startswith(f"epp {__version__}\n")
    assert "--pool-file" in run(f"{runtime}/bin/epp serve --help", tmp_path)
    packages = next(runtime.glob("lib/python*/site-packages/epp"))
    (bytecode,) = packages.glob("__pycache__/__init__.*.pyc")
    assert bytecode.read_bytes()[4:8] == GOES_BY_CONTENTS
    assert not list(runtime.glob("bin/pip*"))


def copy(names: list[str], target: Path) -> None:
    for name in names:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, target)


def run(command: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=os.environ | {"PATH": path, "PIP_NO_INDEX": "1"},
        text=True,
        capture_output=True,
    )
    assert result.returncode == 0, f"{command}\n{result.stderr}"
    return result.stdout


def share_installed_packages(runtime: Path) -> None:
    """Let pip find every locked version installed already: the steps then need no registry."""
    (packages,) = runtime.glob("lib/python*/site-packages")
    (packages / "shared.pth").write_text(sysconfig.get_path("purelib"))
