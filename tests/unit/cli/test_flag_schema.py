from __future__ import annotations

import json
from pathlib import Path

import pytest

from epp.app.flags import Standing
from epp.cli.flag_schema import flag_schema, schema_text, with_flags
from epp.cli.options import serve_flags

FILE = Path(__file__).parents[3] / "config/helm/inference-endpoint-picker/values.schema.json"


def test_the_schema_of_the_chart_is_up_to_date() -> None:
    text = FILE.read_text(encoding="utf-8")

    assert text == schema_text(with_flags(json.loads(text), serve_flags()))


@pytest.mark.parametrize("name", ["v", "zap-encoder", "enable-pprof", "decision-timeout"])
def test_flags_that_start_the_program_are_allowed_with_or_without_effect(name: str) -> None:
    assert name in flag_schema(serve_flags())["properties"]


def test_flags_that_stop_the_start_are_not() -> None:
    removed = {f.name for f in serve_flags() if f.flag.standing is Standing.REMOVED}

    assert removed
    assert not removed & flag_schema(serve_flags())["properties"].keys()
