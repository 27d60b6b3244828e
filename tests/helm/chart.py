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


class NotRendered(Exception):
    """Helm said no."""


def rendered_chart(release: str, namespace: str, values: Values) -> list[dict[str, Any]]:
    """What `helm install` would send to the API server."""
    output = _helm("template", release, str(CHART), "--namespace", namespace, values=values)
    return [document for document in yaml.safe_load_all(output) if document]


def lint(values: Values) -> str:
    """What `helm lint` says of the chart; its warnings are errors."""
    return _helm("lint", "--strict", str(CHART), values=values)


def _helm(*arguments: str, values: Values) -> str:
    done = subprocess.run(
        [str(BINARIES / "helm"), *arguments, "--values", "-"],
        input=yaml.safe_dump(values),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise NotRendered(done.stdout + done.stderr)
    return done.stdout
