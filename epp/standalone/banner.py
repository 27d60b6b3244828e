"""What a standalone run tells its user once it is ready."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from epp.standalone.addresses import Addresses
from epp.standalone.envoy_clusters import Address
from epp.standalone.ports import MovedPort

SHOWN_SERVERS = 8
WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """What runs where."""

    addresses: Addresses
    servers: Sequence[tuple[str, str]]
    """Names and addresses of the model servers."""
    pool_name: str
    fail_open: bool
    config_file: Path | None = None
    """None: the built-in default configuration."""
    profiles: Sequence[str] = ()
    """What is picked by."""
    model: str | None
    """A model that is served; None when no server told one."""
    moved: Sequence[MovedPort] = ()
    note: str | None = None
    program: str = "epp"
    """How this program is called from here."""


def program_here(interpreter: Path, folder: Path) -> str:
    """`epp` where a shell finds it, else the launcher beside the interpreter, if there is one."""
    launcher = interpreter.with_name("epp")
    if shutil.which("epp") or not launcher.is_file():
        return "epp"
    path = launcher.relative_to(folder) if launcher.is_relative_to(folder) else launcher
    return shlex.quote(str(path))


def banner(running: Running) -> str:
    """Some lines for a person at a terminal, the last of them commands to paste."""
    where = running.addresses
    table = f"{running.program} pool show --admin {where.admin}"
    rows = [
        (f"http://{_reachable(where.listener)}", "Envoy: send requests here"),
        (f"http://{where.envoy_admin}", "Envoy: admin pages"),
        (str(where.ext_proc), "EPP: ext_proc, asked by Envoy"),
        (f"http://{where.metrics}/metrics", "EPP: metrics"),
        (f"http://{where.admin}", f"EPP: console; a table: {table}"),
        *((f"http://{address}", name) for name, address in running.servers[:SHOWN_SERVERS]),
    ]
    if (hidden := len(running.servers) - SHOWN_SERVERS) > 0:
        rows.append(("...", f"and {hidden} more model servers"))
    width = max(len(place) for place, _ in rows)
    lines = [f"  {place:<{width}}  {what}" for place, what in rows]
    lines += [f"  {moved_port(moved)}" for moved in running.moved]
    lines.append(f"  pool {running.pool_name}, {_failure_mode(running.fail_open)}")
    lines.append(f"  {_configuration(running.config_file)}")
    lines += [f"    {profile}" for profile in running.profiles]
    if running.note is not None:
        lines.append(f"  note: {running.note}")
    commands = [f"  {curl_line(running)}", f"  {doctor_line(running)}"]
    return "\n".join(["Ready.", *lines, "Try:", *commands, "Ctrl-C ends it all."])


def moved_port(moved: MovedPort) -> str:
    """Say that a port is another than the one asked for."""
    return f"port {moved.wanted} is taken: {moved.purpose} uses {moved.given}"


def curl_line(running: Running) -> str:
    """A command that sends a chat request to Envoy."""
    body = {
        "model": running.model or "MODEL",
        "messages": [{"role": "user", "content": "Hello"}],
    }
    url = f"http://{_reachable(running.addresses.listener)}/v1/chat/completions"
    return shlex.join(
        ["curl", "-i", url, "-H", "content-type: application/json", "-d", json.dumps(body)]
    )


def doctor_line(running: Running) -> str:
    """A command that examines what runs here."""
    where = running.addresses
    return (
        f"{running.program} doctor --secure-serving=false --admin={where.admin}"
        f" --grpc-address={where.ext_proc} --envoy-admin={where.envoy_admin}"
    )


def _configuration(file: Path | None) -> str:
    if file is None:
        return "configuration: the built-in default; --config-file names another"
    return f"configuration: {file}, read again when it changes"


def _failure_mode(fail_open: bool) -> str:
    if fail_open:
        return "failure mode FailOpen: without the EPP, Envoy picks any model server"
    return "failure mode FailClose: without the EPP, requests are answered with 503"


def _reachable(address: Address) -> Address:
    return Address(WILDCARDS.get(address.host, address.host), address.port)
