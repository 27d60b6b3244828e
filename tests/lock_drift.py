"""Compares pyproject.toml with the lock files, without a network; run by `make drift`."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

EXTRAS_OF_LOCK = {
    "requirements.lock": ("cel", "otlp"),
    "requirements-standalone.lock": ("standalone", "simulator"),
    "requirements-dev.lock": ("standalone", "simulator", "zstd", "cel", "otlp"),
}
BUILD_LOCK = "requirements-build.lock"
DEVELOPMENT_LOCK = "requirements-dev.lock"

Pins = Mapping[str, frozenset[str]]
"""The versions a lock file has of each package; more than one where they depend on a marker."""


def problems(folder: Path) -> list[str]:
    """Return a line for everything in which the lock files of `folder` differ from it."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    locks = {name: read_pins((folder / name).read_text()) for name in (*EXTRAS_OF_LOCK, BUILD_LOCK)}
    found = [
        f"{name}: {problem}"
        for name, pins in locks.items()
        for requirement in _required(project, name)
        if (problem := _unmet(requirement, pins)) is not None
    ]
    return [*found, *_disagreements(locks)]


def read_pins(lock: str) -> Pins:
    """Return what a lock file pins; ValueError names a line that pins nothing."""
    pins: dict[str, frozenset[str]] = {}
    for entry in re.sub(r"\\\n", " ", lock).splitlines():
        pinned, _, hashes = entry.partition(" --hash=")
        match = re.fullmatch(r"(\S+?)(?:\[.*])?==([^\s;]+)\s*(?:;.*)?", pinned.strip())
        if match is None or not hashes:
            raise ValueError(f"{entry[:80]!r}: expected package==version with hashes")
        name = canonicalize_name(match[1])
        pins[name] = pins.get(name, frozenset()) | {match[2]}
    return pins


def _required(project: Mapping[str, Any], lock: str) -> Iterator[Requirement]:
    if lock == BUILD_LOCK:
        return map(Requirement, project["build-system"]["requires"])
    texts = list(project["project"]["dependencies"])
    for extra in EXTRAS_OF_LOCK[lock]:
        texts += project["project"]["optional-dependencies"][extra]
    if lock == DEVELOPMENT_LOCK:
        texts += project["dependency-groups"]["dev"]
    return map(Requirement, texts)


def _unmet(requirement: Requirement, pins: Pins) -> str | None:
    versions = pins.get(canonicalize_name(requirement.name))
    if versions is None:
        return f"lacks {requirement}"
    wrong = [v for v in sorted(versions) if not requirement.specifier.contains(Version(v), True)]
    return f"has {requirement.name} {wrong[0]}, required is {requirement}" if wrong else None


def _disagreements(locks: Mapping[str, Pins]) -> Iterator[str]:
    """Compare with the development lock, which has everything: all share one environment."""
    everything = locks[DEVELOPMENT_LOCK]
    for name, pins in locks.items():
        for package, versions in pins.items():
            others = everything.get(package, frozenset())
            if versions != others:
                theirs = " and ".join(sorted(others)) or "nothing"
                ours = " and ".join(sorted(versions))
                yield f"{name}: has {package} {ours}, {DEVELOPMENT_LOCK} has {theirs}"


def main(folder: Path) -> int:
    """Print the differences and return the exit code."""
    try:
        found = problems(folder)
    except ValueError as error:
        found = [str(error)]
    for problem in found:
        print(problem, file=sys.stderr)
    if found:
        print("pyproject.toml and the lock files differ; run: make lock", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).parent.parent))
