from __future__ import annotations

import pytest

from epp import __version__
from epp.cli.main import COMMANDS, main
from epp.support.revision import REVISION_VARIABLE


def test_the_overview_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0

    output = capsys.readouterr().out
    assert [name for name in COMMANDS if name not in output] == []


def test_no_command_is_a_usage_error_that_shows_the_overview(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 2

    assert "usage: epp COMMAND" in capsys.readouterr().err


def test_an_unknown_command_leads_to_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["standalon"]) == 2

    assert capsys.readouterr().err == (
        "epp: unknown command 'standalon'; the nearest is 'standalone'\n"
    )


@pytest.mark.parametrize("arguments", [["version"], ["--version"]])
def test_versions_are_printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0

    output = capsys.readouterr().out
    assert f"epp {__version__}\n" in output
    assert "Python 3." in output
    assert "grpcio 1." in output


def test_an_image_tells_the_commit_it_was_built_of(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REVISION_VARIABLE, "1c0ffee")

    assert main(["version"]) == 0

    assert f"epp {__version__}, commit 1c0ffee\n" in capsys.readouterr().out


def test_serve_explains_its_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--help"]) == 0

    assert "--pool-file PATH" in capsys.readouterr().out


def test_every_mistake_has_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--grcp-port=1", "--drain-timeout=5"]) == 2

    assert capsys.readouterr().err.splitlines() == [
        "epp serve: unknown flag --grcp-port; the nearest is --grpc-port",
        "epp serve: --drain-timeout: '5' is not a duration; allowed: numbers with units such as"
        " 250ms, 30s, 1m30s or 1h, or a plain 0",
        "epp serve: no pool is given; use one of --pool-name, --endpoint-selector, --pool-file",
        "epp serve --help explains the flags",
    ]


def test_an_argument_of_another_command_that_makes_no_sense_is_a_usage_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["version", "--nope"]) == 2

    assert "--nope" in capsys.readouterr().err
