from __future__ import annotations

import argparse
import os
import subprocess
import sys

import pytest

from epp.cli.main import main
from epp.cli.plugins_commands import add_arguments, lines
from epp.config.plugin_registry import PluginRegistry
from tests.fakes.configurations import registry_with


def printed(registry: PluginRegistry, *arguments: str) -> list[str]:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return list(lines(parser.parse_args(arguments), registry))


def test_the_list_has_type_kind_stability_and_one_line_for_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["plugins", "list"]) == 0

    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["TYPE", "KIND", "STABILITY"]
    assert next(line for line in table if line.startswith("context-length-aware ")).split()[:4] == [
        "context-length-aware",
        "filter,",
        "scorer",
        "Beta",
    ]


def test_strangers_are_listed_and_broken_ones_do_not_spoil_the_list() -> None:
    registry = registry_with({"colour-scorer": "ColourScorer", "odd": "NOT_A_PLUGIN"})

    table = {line.split()[0]: line for line in printed(registry, "list")}

    assert table["colour-scorer"].endswith("Beta        Prefers colours.")
    assert table["odd"].split()[1] == "broken"
    assert "distribution 'acme'" in table["odd"]
    assert "queue-scorer" in table


def test_one_plugin_is_shown_with_its_parameters() -> None:
    registry = registry_with({"counting-scorer": "CountingColourScorer"})

    assert printed(registry, "show", "counting-scorer") == [
        "counting-scorer: scorer, Beta",
        "",
        "Prefers colours, and shows how many it has seen.",
        "",
        "scores: The same for all.",
        "metrics: acme_count",
        "",
        "parameters:",
        '  colourProducerName (string, default "")',
        "      Who writes the colour.",
        "  strength (integer, default 1)",
        "      How much it counts.",
    ]


def test_a_type_that_nobody_knows_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins", "show", "quee-scorer"]) == 2

    assert capsys.readouterr().err == (
        "epp plugins: \"quee-scorer\" is no plugin type; did you mean 'queue-scorer'?\n"
    )


def test_a_reader_that_has_seen_enough_is_no_mistake() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "epp", "plugins", "list"],
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(writing)

    assert (done.returncode, done.stderr) == (0, b"")
