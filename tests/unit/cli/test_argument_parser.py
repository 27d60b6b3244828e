from __future__ import annotations

import pytest

from epp.cli.main import main


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "standalone --grpc-prt 1",
            ["epp standalone: unknown flag --grpc-prt; the nearest is --grpc-port"],
        ),
        (
            "standalone --endpoint=1 --prt=2",
            [
                "epp standalone: unknown flag --endpoint; the nearest is --endpoints",
                "epp standalone: unknown flag --prt; the nearest is --port",
            ],
        ),
        ("standalone --secure-serving=false", ["epp standalone: unknown flag --secure-serving"]),
        ("standalone here", ["epp standalone: unexpected argument 'here'"]),
        (
            "standalone --failure-mode FailOpn",
            [
                "epp standalone: --failure-mode: 'FailOpn' is not one of FailOpen, FailClose;"
                " did you mean 'FailOpen'?"
            ],
        ),
        (
            "envoy-config --endpont x",
            ["epp envoy-config: unknown flag --endpont; the nearest is --endpoints"],
        ),
        ("explain --bdy x", ["epp explain: unknown flag --bdy; the nearest is --body"]),
        (
            "explain --output jsn",
            ["epp explain: --output: 'jsn' is not one of table, json; did you mean 'json'?"],
        ),
        (
            "config xchema",
            ["epp config: COMMAND: 'xchema' is not one of check, schema; did you mean 'schema'?"],
        ),
        ("plugins list --knd", ["epp plugins list: unknown flag --knd"]),
        (
            "pool show --outptu json",
            ["epp pool show: unknown flag --outptu; the nearest is --output"],
        ),
        (
            "simulator --port x",
            ["epp simulator: --port: 'x' is not a number; allowed: whole numbers"],
        ),
        (
            "simulator --failure-injection-rate x",
            [
                "epp simulator: --failure-injection-rate: 'x' is not a number; allowed: numbers"
                " such as 0.5 or 20"
            ],
        ),
        ("version --no", ["epp version: unknown flag --no"]),
    ],
)
def test_a_slip_is_told_with_the_spelling_that_was_meant(
    line: str, told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 2

    *lines, last = capsys.readouterr().err.splitlines()
    assert lines == told
    assert last == f"{told[0].partition(':')[0]} --help explains the flags"


def test_what_is_quoted_can_not_write_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["explain", "--\x1b[2J"], ["explain", "--output", "\x1b[2J"]):
        assert main(arguments) == 2

    assert "\x1b" not in capsys.readouterr().err
