from __future__ import annotations

import pytest

from tests.benchmarks.contenders import named


def test_places_in_a_command_are_filled_and_other_braces_stay() -> None:
    contender = named("""go=epp --port {port} --config-text '{plugins: [{path: {endpoints}}]}'""")

    arguments = contender.arguments({"port": "9002", "endpoints": "/tmp/e.yaml"})

    assert contender.name == "go"
    assert arguments == [
        "epp",
        "--port",
        "9002",
        "--config-text",
        "{plugins: [{path: /tmp/e.yaml}]}",
    ]


@pytest.mark.parametrize("text", ["epp --port {port}", "go=epp --port 9002"])
def test_a_contender_without_name_or_port_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be NAME=COMMAND"):
        named(text)
