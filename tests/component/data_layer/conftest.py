from __future__ import annotations

import asyncio
import datetime
import ipaddress
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from epp.data_layer.page import Page, PageReader
from epp.data_layer.pages import Pages
from epp.data_layer.timetable import Timetable
from epp.framework.data_layer import HttpTarget
from tests.fakes.page_server import PageServer, page_server

MOST_CONNECTIONS = 3


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


class ReadPage:
    """One page, and what was told of it."""

    def __init__(self, pages: Pages, target: HttpTarget) -> None:
        self._told: asyncio.Queue[bytes | str] = asyncio.Queue()
        reader = PageReader(page=self._told.put_nowait, failure=self._told.put_nowait)
        self.page: Page = pages.open(target, reader)

    async def read(self) -> bytes | str:
        """The page as bytes, or why there is none as text."""
        self.page.fetch()
        return await self.outcome()

    async def outcome(self) -> bytes | str:
        """The same, of what has been asked for already."""
        async with asyncio.timeout(20):
            return await self._told.get()

    @property
    def is_told_of(self) -> bool:
        return not self._told.empty()


@pytest.fixture
async def server() -> AsyncIterator[PageServer]:
    async with page_server() as server:
        yield server


@pytest.fixture
async def pages() -> AsyncIterator[Pages]:
    pages = Pages(
        Timetable(time.monotonic),
        time.monotonic,
        timeout_seconds=20,
        max_connections=MOST_CONNECTIONS,
    )
    yield pages
    await pages.aclose()


OpenPage = Callable[..., ReadPage]


@pytest.fixture
async def open_page(pages: Pages, server: PageServer) -> AsyncIterator[OpenPage]:
    """Opens pages of the server."""
    opened: list[ReadPage] = []

    def open_(**changes: object) -> ReadPage:
        values = {"host": "127.0.0.1", "port": server.port, "path": "/metrics"} | changes
        opened.append(ReadPage(pages, HttpTarget(**values)))  # type: ignore[arg-type] # a test's
        return opened[-1]

    yield open_
    for each in opened:
        each.page.close()


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority, and files of two certificates it has signed."""

    certificate: Path
    server: tuple[Path, Path]
    client: tuple[Path, Path]


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    folder = tmp_path_factory.mktemp("authority")
    key = ec.generate_private_key(ec.SECP256R1())
    signed = _sign("authority", key, "authority", key, is_authority=True)
    path = folder / "ca.crt"
    path.write_bytes(signed.public_bytes(Encoding.PEM))

    def pair(name: str) -> tuple[Path, Path]:
        own = ec.generate_private_key(ec.SECP256R1())
        certificate = _sign(name, own, "authority", key, is_authority=False)
        files = folder / f"{name}.crt", folder / f"{name}.key"
        files[0].write_bytes(certificate.public_bytes(Encoding.PEM))
        files[1].write_bytes(own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return files

    return Authority(path, pair("server"), pair("client"))


def _sign(
    subject: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    is_authority: bool,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    local = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([local]), critical=False)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .sign(issuer_key, hashes.SHA256())
    )
