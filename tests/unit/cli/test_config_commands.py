from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
import yaml

from epp.cli.main import main


def test_without_a_file_the_built_in_default_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["config", "check"]) == 0

    output = capsys.readouterr()
    assert "- name: prefix-cache-scorer\n" in output.out
    assert output.err == ""


def test_warnings_go_to_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "epp.yaml"
    file.write_text("plugins: [{type: queue-scorer, parameters: {a: 1}}]")

    assert main(["config", "check", str(file)]) == 0

    output = capsys.readouterr()
    assert output.err == (
        "epp config check: warning: plugins[0].parameters: ignored: queue-scorer looks at none\n"
    )
    assert "warning" not in output.out


def test_every_mistake_of_a_file_is_explained_with_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "epp.yaml"
    file.write_text("plugins: [{type: quee-scorer}]\nkind: Other\n")

    assert main(["config", "check", str(file)]) == 2

    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.splitlines() == [
        f"epp config: {file} can't be used:",
        '  kind: "Other" is not allowed; EndpointPickerConfig',
        "  plugins[0].type: \"quee-scorer\" is no plugin type; did you mean 'queue-scorer'?",
    ]


def test_a_dash_reads_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    content = io.TextIOWrapper(io.BytesIO(b"plugins: [{type: session-affinity-scorer}]"))
    monkeypatch.setattr(sys, "stdin", content)

    assert main(["config", "check", "-", "--allow-experimental-plugins"]) == 0

    assert "- name: session-affinity-scorer\n" in capsys.readouterr().out


def test_a_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", "/nowhere/epp.yaml"]) == 2

    assert "/nowhere/epp.yaml can't be read: No such file" in capsys.readouterr().err


def test_the_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "schema"]) == 0

    schema = json.loads(capsys.readouterr().out)
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert "plugins" in schema["properties"]


def test_names_from_a_file_do_nothing_to_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "epp.yaml"
    name = "\x1b[31mred\n- type: FAKE"
    plugins = [{"name": name, "type": "queue-scorer"}, {"name": "p", "type": "max-score-picker"}]
    file.write_text(json.dumps({"plugins": plugins}))
    assert main(["config", "check", str(file)]) == 0
    printed = capsys.readouterr()
    file.write_text(json.dumps({"plugins": plugins, "\x1b[33mfield\nFAKE": 1}))
    assert main(["config", "check", str(file)]) == 2
    complaint = capsys.readouterr().err

    assert "\x1b" not in printed.out + printed.err + complaint
    assert yaml.safe_load(printed.out)["plugins"][0]["name"] == name
    assert "[\\x1b[33mfield\\nFAKE]: unknown field" in complaint
