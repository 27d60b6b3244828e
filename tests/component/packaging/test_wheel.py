from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import PathDistribution, packages_distributions
from pathlib import Path
from zipfile import Path as ZipPath
from zipfile import ZipFile

import pytest
from packaging.utils import canonicalize_name

from epp import __version__
from tests.lock_drift import read_pins

ROOT = Path(__file__).parents[3]
IMPORT_SERVE = """
import json, sys
sys.modules.update(dict.fromkeys(json.loads(sys.argv[1])))  # to import one of them is an error
import epp.cli.main, epp.cli.options, epp.app.serve
rooms = [module.split(".")[1] for module in sys.modules if module.startswith("epp.")]
print(json.dumps({"file": epp.__file__, "rooms": rooms}))
"""


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
    subprocess.run([*install, "--target", str(folder), str(wheel)], check=True)
    return folder


def run_installed(installed: Path, *command: str) -> str:
    """Run away from the checkout, so that only the installed package can be found."""
    environment = os.environ | {"PYTHONPATH": str(installed)}
    return subprocess.run(
        command, cwd=installed, env=environment, check=True, capture_output=True, text=True
    ).stdout


def test_the_wheel_holds_the_package_typed_and_nothing_else(wheel: Path) -> None:
    names = ZipFile(wheel).namelist()

    assert {name.split("/")[0].removesuffix(".dist-info") for name in names} == {
        "epp",
        f"inference_endpoint_picker-{__version__}",
    }
    assert {"epp/py.typed", "epp/wire/ext_proc_pb2.py"} <= set(names)
    assert [name for name in names if "/test_" in name or name.endswith("conftest.py")] == []
    sources = {str(path.relative_to(ROOT)) for path in ROOT.glob("epp/**/*.py")}
    assert {name for name in names if name.endswith(".py")} == sources


def test_the_metadata_name_the_extras_and_the_license(wheel: Path) -> None:
    folder = f"inference_endpoint_picker-{__version__}.dist-info/"
    metadata = PathDistribution(ZipPath(wheel, folder)).metadata

    assert metadata.get_all("Provides-Extra") == [
        "cel",
        "otlp",
        "simulator",
        "standalone",
        "zstd",
    ]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["License-File"] == "LICENSE"


def test_the_installed_command_runs(installed: Path) -> None:
    output = run_installed(installed, str(installed / "bin/epp"), "version")

    assert output.splitlines()[0] == f"epp {__version__}"


def test_serve_needs_only_what_requirements_lock_installs(installed: Path) -> None:
    locked = read_pins((ROOT / "requirements.lock").read_text())
    absent = [
        module
        for module, distributions in packages_distributions().items()
        if not any(canonicalize_name(name) in locked for name in distributions)
    ]
    assert {"envoy", "zstandard", "pytest"} <= set(absent)

    imported = json.loads(
        run_installed(installed, sys.executable, "-c", IMPORT_SERVE, json.dumps(absent))
    )

    assert Path(imported["file"]).is_relative_to(installed)
    assert {"standalone", "simulator"}.isdisjoint(imported["rooms"])


def test_the_wheel_holds_the_files_of_the_console(wheel: Path) -> None:
    names = ZipFile(wheel).namelist()

    files = {str(path.relative_to(ROOT)) for path in ROOT.glob("epp/admin/console/*")}
    assert "epp/admin/console/index.html" in files
    assert {name for name in names if name.startswith("epp/admin/console/")} == files
