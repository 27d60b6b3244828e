"""The part of the chart's values schema that says which flags there are.

Written by `python -m epp.cli.flag_schema config/helm/inference-endpoint-picker/values.schema.json`;
a test fails when it is not up to date.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from epp.app.flags import Declaration, Standing
from epp.cli.options import serve_flags

_VALUE = {"type": ["string", "number", "boolean", "array"]}


def flag_schema(flags: Sequence[Declaration]) -> dict[str, Any]:
    """Return the JSON Schema of `router.epp.flags`: every flag that starts the program.

    Flags without effect are among them, so that values of other charts go on working.
    """
    return {
        "description": "docs/flags.md has them all",
        "type": "object",
        "additionalProperties": False,
        "allOf": [{"additionalProperties": _VALUE}],
        "properties": {
            flag.name: {"description": flag.flag.help}
            for flag in flags
            if flag.flag.standing is not Standing.REMOVED
        },
    }


def with_flags(schema: dict[str, Any], flags: Sequence[Declaration]) -> dict[str, Any]:
    """Return the chart's schema with these flags in the place of those it has."""
    schema["properties"]["router"]["properties"]["epp"]["properties"]["flags"] = flag_schema(flags)
    return schema


def schema_text(schema: dict[str, Any]) -> str:
    """Return the file."""
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(schema_text(with_flags(json.loads(file.read_text()), serve_flags())))
