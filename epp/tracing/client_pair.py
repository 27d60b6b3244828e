"""A client certificate for the collector, and its key: grpcio ends the process over half of it."""

from __future__ import annotations

import os
from collections.abc import Mapping

_PAIRS = tuple(
    (f"OTEL_EXPORTER_OTLP_{signal}CLIENT_CERTIFICATE", f"OTEL_EXPORTER_OTLP_{signal}CLIENT_KEY")
    for signal in ("TRACES_", "")
)


def problem_of_client_pair(environment: Mapping[str, str]) -> str | None:
    """What is missing of a pair, if one is named."""
    for names in _PAIRS:
        files = {name: environment.get(name, "") for name in names}
        if not any(files.values()):
            continue
        for name, file in files.items():
            if not file:
                return f"{name} has to be set as well as {' and '.join(set(names) - {name})}"
            if not (os.path.isfile(file) and os.access(file, os.R_OK)):
                return f"{name}: can't read {file}"
    return None
