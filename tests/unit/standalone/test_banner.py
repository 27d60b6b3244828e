from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from epp.standalone.addresses import Addresses
from epp.standalone.banner import Running, banner, curl_line, program_here
from epp.standalone.envoy_clusters import Address
from epp.standalone.ports import MovedPort


def running(*, host: str = "127.0.0.1", **changes: Any) -> Running:
    values: dict[str, Any] = {
        "addresses": Addresses(
            listener=Address(host, 8080),
            envoy_admin=Address("127.0.0.1", 19000),
            ext_proc=Address("127.0.0.1", 9002),
            health=Address("127.0.0.1", 9003),
            metrics=Address("127.0.0.1", 9090),
            admin=Address("127.0.0.1", 9091),
        ),
        "servers": [("simulator-1", "127.0.0.1:8101")],
        "pool_name": "lab",
        "fail_open": False,
        "model": "it's-a-model",
    }
    return Running(**{**values, **changes})


def test_the_banner_says_what_runs_where() -> None:
    text = banner(running())

    for part in ("http://127.0.0.1:8080", "http://127.0.0.1:9090/metrics", "simulator-1", "lab"):
        assert part in text


def test_the_banner_tells_how_to_ask_this_picker_about_the_pool() -> None:
    assert "epp pool show --admin 127.0.0.1:9091\n" in banner(running())


def test_the_banner_tells_how_to_examine_what_runs_here() -> None:
    told = "epp doctor --secure-serving=false --admin=127.0.0.1:9091 --grpc-address=127.0.0.1:9002"

    assert f"  {told} --envoy-admin=127.0.0.1:19000\n" in banner(running())


@pytest.mark.parametrize(
    ("path", "here", "called"),
    [
        ("/nowhere", "lab", ".venv/bin/epp"),
        ("/nowhere", "lab/deeper", "{lab}/.venv/bin/epp"),
        ("{lab}/.venv/bin", "lab", "epp"),
    ],
    ids=["in the checkout", "elsewhere", "activated"],
)
def test_commands_of_the_banner_can_be_pasted_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, here: str, called: str
) -> None:
    lab = tmp_path / "lab"
    (lab / ".venv/bin").mkdir(parents=True)
    launcher = lab / ".venv/bin/epp"
    launcher.touch(0o755)
    monkeypatch.setenv("PATH", path.format(lab=lab))

    program = program_here(launcher.with_name("python"), tmp_path / here)

    assert program == called.format(lab=lab)
    assert f"  {program} doctor " in banner(running(program=program))
    assert f" {program} pool show " in banner(running(program=program))


def test_where_no_launcher_is_there_the_command_is_plain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    assert program_here(tmp_path / "python", tmp_path) == "epp"


def test_the_banner_names_the_console() -> None:
    (line,) = [line for line in banner(running()).splitlines() if "console" in line]

    assert line.split()[0] == "http://127.0.0.1:9091"


@pytest.mark.parametrize(("fail_open", "mode"), [(True, "FailOpen"), (False, "FailClose")])
def test_the_banner_says_what_a_failure_means(fail_open: bool, mode: str) -> None:
    assert f"failure mode {mode}:" in banner(running(fail_open=fail_open))


def test_the_banner_tells_moved_ports_and_notes() -> None:
    text = banner(running(moved=[MovedPort("Envoy", 8080, 8081)], note="nobody answers"))

    assert "port 8080 is taken: Envoy uses 8081" in text
    assert "note: nobody answers" in text


@pytest.mark.parametrize(
    ("file", "told"),
    [
        (None, "configuration: the built-in default"),
        (Path("my.yaml"), "configuration: my.yaml, read again when it changes"),
    ],
)
def test_the_banner_says_which_configuration_is_in_force(file: Path | None, told: str) -> None:
    text = banner(running(config_file=file, profiles=["profile default: queue-scorer x2"]))

    assert f"  {told}" in text
    assert "    profile default: queue-scorer x2\n" in text


def test_a_large_pool_does_not_fill_the_screen() -> None:
    servers = [(f"server-{number}", f"10.0.0.{number}:80") for number in range(1, 101)]

    text = banner(running(servers=servers))

    assert "and 92 more model servers" in text
    assert len(text.splitlines()) < 25


def test_the_curl_line_survives_a_shell() -> None:
    command = shlex.split(curl_line(running()))

    assert command[0] == "curl"
    assert "http://127.0.0.1:8080/v1/chat/completions" in command
    assert json.loads(command[-1])["model"] == "it's-a-model"


@pytest.mark.parametrize(
    ("host", "url"), [("0.0.0.0", "http://127.0.0.1:8080/"), ("::", "http://[::1]:8080/")]
)
def test_the_curl_line_avoids_wildcard_addresses(host: str, url: str) -> None:
    assert url in curl_line(running(host=host))
