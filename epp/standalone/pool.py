"""The pool of a standalone run: a file of the user's own, or made of endpoints he names."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

import yaml

from epp.app.flag_kinds import FailureModeName
from epp.datastore.inference_pool import API_VERSION, KIND
from epp.framework.errors import ConfigError
from epp.standalone.envoy_clusters import Address
from epp.support.addresses import split_host_port

POOL_NAME = "standalone"
ALLOWED = "HOST:PORT,HOST:PORT with IPv6 addresses in brackets: [::1]:8000"

_ENDPOINT = re.compile(r"(?:\[(?P<v6>[^\[\]]+)\]|(?P<host>[^\[\]:/@\s]+)):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelServer:
    """A model server of a pool that is made here."""

    name: str
    address: Address
    """Its host is an IP address."""


def parse_endpoints(text: str, flag: str = "--endpoints") -> tuple[Address, ...]:
    """Read the value of a flag that lists addresses."""
    addresses = [_parse_endpoint(part.strip(), flag) for part in text.split(",") if part.strip()]
    if not addresses:
        raise ConfigError(f"{flag}: {text!r} names no address; allowed: {ALLOWED}")
    for address in addresses:
        if addresses.count(address) > 1:
            raise ConfigError(f"{flag}: {address} is named twice")
    return tuple(addresses)


def _parse_endpoint(text: str, flag: str) -> Address:
    match = _ENDPOINT.fullmatch(text)
    if match is None:
        raise ConfigError(f"{flag}: {text!r} is not an address; allowed: {ALLOWED}")
    port = int(match["port"])
    if not 1 <= port <= 65535:
        raise ConfigError(f"{flag}: port of {text!r} is out of range; allowed: 1 to 65535")
    if match["v6"] is None:
        if split_host_port(text) is None:
            raise ConfigError(f"{flag}: host of {text!r} is no name; allowed: {ALLOWED}")
        return Address(match["host"], port)
    try:
        return Address(str(ipaddress.IPv6Address(match["v6"])), port)
    except ValueError:
        raise ConfigError(
            f"{flag}: {text!r} is not an address; only IPv6 addresses go in brackets"
        ) from None


async def resolve(addresses: Sequence[Address]) -> tuple[ModelServer, ...]:
    """Replace host names by their addresses: a pool knows IP addresses only."""
    servers = []
    for number, address in enumerate(addresses, 1):
        ip = await _ip_of(address)
        servers.append(ModelServer(name=f"server-{number}", address=Address(ip, address.port)))
    return tuple(servers)


async def _ip_of(address: Address) -> str:
    loop = asyncio.get_running_loop()
    try:
        answers = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"--endpoints: {address.host!r} can't be resolved: {error}") from error
    # Model servers listen on IPv4 unless told otherwise.
    answers.sort(key=lambda answer: answer[0] != socket.AF_INET)
    return str(answers[0][4][0])


def pool_document(servers: Sequence[ModelServer], failure_mode: FailureModeName) -> str:
    """A pool file with an InferencePool of these servers."""
    labels = {"app": POOL_NAME}
    pool = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": POOL_NAME},
        "spec": {
            "selector": {"matchLabels": labels},
            "targetPorts": [{"number": servers[0].address.port}],
            "endpointPickerRef": {
                "name": "epp",
                "port": {"number": 9002},
                "failureMode": failure_mode,
            },
        },
    }
    endpoints = [
        {
            "name": server.name,
            "address": server.address.host,
            "port": str(server.address.port),
            "labels": dict(labels),
        }
        for server in servers
    ]
    return yaml.safe_dump_all([pool, {"endpoints": endpoints}], sort_keys=False)


def _written(document: str, folder: Path) -> IO[str]:
    try:
        folder.mkdir(exist_ok=True)
        file = NamedTemporaryFile("w", dir=folder, prefix="pool-", suffix=".yaml")  # noqa: SIM115 - the caller's
        file.write(document)
        file.flush()
    except OSError as error:
        raise ConfigError(
            f"a pool file can't be written to {folder.absolute()}: {error.strerror}; start it in a"
            " folder that may be written to, or name the pool by --pool-file"
        ) from error
    return file


@contextmanager
def temporary_pool_file(document: str, folder: Path) -> Iterator[Path]:
    """A pool file in `folder` for as long as the context lasts."""
    try:
        with _written(document, folder) as file:
            yield Path(file.name)
    finally:
        with suppress(OSError):  # others may use it
            folder.rmdir()
