"""The chart of config/helm, rendered by the helm that build.sh builds."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "config/helm/inference-endpoint-picker"
BINARIES = Path(os.environ.get("EPP_HELM_BIN") or Path.home() / ".cache/epp-helm")

Values = dict[str, Any]


class Refused(Exception):
    """Helm said no."""


def rendered_chart(release: str, namespace: str, values: Values) -> list[dict[str, Any]]:
    """What `helm install` would send to the API server."""
    arguments = ("template", release, str(CHART), "--namespace", namespace)
    output = helm(*arguments, "--values=-", given=yaml.safe_dump(values))
    return [document for document in yaml.safe_load_all(output) if document]


def lint(values: Values) -> str:
    """What `helm lint` says of the chart; its warnings are errors."""
    return helm("lint", "--strict", str(CHART), "--values=-", given=yaml.safe_dump(values))


def helm(*arguments: str, given: str = "") -> str:
    """What helm prints; `given` is its standard input."""
    done = subprocess.run(
        [str(BINARIES / "helm"), *arguments],
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Refused(done.stdout + done.stderr)
    return done.stdout
