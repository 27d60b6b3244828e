"""What `epp doctor` can be told beside the flags of `epp serve`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from epp.app.flag_kinds import Kind, ObjectName, PositiveSeconds, Words
from epp.app.flags import Flag, Section
from epp.support.addresses import join_host_port, split_host_port


class HostPort(NamedTuple):
    """Where somebody listens; the host without brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return join_host_port(self.host, self.port)


def _read_address(text: str) -> HostPort | None:
    if not text:
        return None
    address = split_host_port(text)
    if address is None:
        raise ValueError(f"{text!r} is not an address; allowed: HOST:PORT, such as 127.0.0.1:9002")
    return HostPort(*address)


Address = Annotated[HostPort | None, Kind("HOST:PORT", _read_address)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """Whom to ask, and how to tell."""

    grpc_address: Annotated[
        Address,
        Flag(
            Section.DIAGNOSIS,
            "ext_proc port of the running picker; without it: in a pod the Service that the pool"
            " names, with --pool-file this machine",
        ),
    ] = None
    admin: Annotated[
        Address,
        Flag(
            Section.DIAGNOSIS,
            "admin port of the running picker; without it --admin-port, here",
        ),
    ] = None
    service_account: Annotated[
        ObjectName,
        Flag(
            Section.DIAGNOSIS,
            "ask for the rights of this ServiceAccount of the pool's namespace, not for your own",
        ),
    ] = ""
    envoy_admin: Annotated[
        Address, Flag(Section.DIAGNOSIS, "admin port of an Envoy gateway, to look at its settings")
    ] = None
    envoy_config_dump: Annotated[
        Path | None,
        Flag(Section.DIAGNOSIS, "the same from a file: its /config_dump, or a bootstrap"),
    ] = None
    model: Annotated[
        str, Flag(Section.DIAGNOSIS, "model that the trial request names; it is never sent on")
    ] = "epp-doctor"
    skip: Annotated[Words, Flag(Section.DIAGNOSIS, "checks to leave out, by their ids")] = ()
    strict: Annotated[bool, Flag(Section.DIAGNOSIS, "exit code 1 for warnings, too")] = False
    output: Annotated[
        Literal["table", "json"], Flag(Section.DIAGNOSIS, "for people, or for programs")
    ] = "table"
    timeout: Annotated[
        PositiveSeconds, Flag(Section.DIAGNOSIS, "all checks together; at most 25s are used")
    ] = 25.0
