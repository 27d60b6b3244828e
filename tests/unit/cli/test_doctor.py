from __future__ import annotations

import json
from pathlib import Path

import pytest

from epp.cli.main import main

NO_PICKER = (
    "--skip=picker-port,picker-admin,picker-health,picker-exchange,endpoint-ports,endpoint-metrics"
)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--skip=pool,podz"], "--skip: 'podz' is no check; did you mean 'pods'?"),
        (["--skip=clock"], "'clock' is no check; allowed: cluster, pool, "),
        (["--grpc-address=9002"], "'9002' is not an address; allowed: HOST:PORT"),
        (["--grpc-address=a:70000"], "allowed: HOST:PORT"),
        (["--output=xml"], "'xml' is not one of table, json"),
        (["--nonsense"], "unknown flag --nonsense"),
        (["--pool-name=a", "--pool-file=b"], "exclude each other"),
    ],
)
def test_wrong_usage_is_told_and_ends_with_two(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", *arguments]) == 2

    assert words in capsys.readouterr().err


def test_help_explains_checks_and_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--help"]) == 0

    output = capsys.readouterr().out
    assert "picker-exchange" in output
    assert "--envoy-config-dump" in output


def pool_file(folder: Path, endpoints: str) -> str:
    path = folder / "pool.yaml"
    path.write_text(f"endpoints: [{endpoints}]\n")
    return f"--pool-file={path}"


def test_where_nothing_is_wrong_it_ends_with_zero(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = pool_file(tmp_path, "{name: a, address: 10.0.0.1, port: 8000}")

    assert main(["doctor", file, NO_PICKER, "--skip=limits", "--output=json"]) == 0

    findings = json.loads(capsys.readouterr().out)["findings"]
    assert {"check": "config", "verdict": "ok"}.items() <= findings[5].items()


def test_a_fault_ends_with_one_and_warnings_only_when_strict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = "{name: a, address: 10.0.0.1, port: 8000}, {name: b, address: somewhere, port: 1}"
    file = pool_file(tmp_path, odd)

    assert main(["doctor", file, NO_PICKER, "--skip=limits"]) == 0
    assert main(["doctor", file, NO_PICKER, "--skip=limits", "--strict"]) == 1
    assert main(["doctor", f"--pool-file={tmp_path}/none", NO_PICKER]) == 1

    output = capsys.readouterr().out
    assert "endpoints[1] (b): address" in output
    assert "No such file or directory" in output


def test_a_wrong_configuration_is_a_fault_with_every_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = pool_file(tmp_path, "{name: a, address: 10.0.0.1, port: 8000}")
    config = "--config-text=plugins: [{type: quue-scorer}, {type: no-such}]"

    assert main(["doctor", file, NO_PICKER, config]) == 1

    output = capsys.readouterr().out
    assert "quue-scorer" in output
    assert "no-such" in output
