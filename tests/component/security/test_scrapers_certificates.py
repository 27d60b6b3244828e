"""Who may connect to the metrics port: --metrics-client-ca-file."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from epp.admin.access import Access
from epp.admin.http_port import HttpPort
from epp.admin.http_tls import HttpTls
from epp.admin.metrics_guard import MetricsGuard
from epp.admin.metrics_pages import metrics_pages
from epp.framework.errors import ConfigError
from epp.observability.metrics import Metrics
from epp.support.access import Identity
from epp.transport.certificates import CertificatePair
from tests.fakes.authorities import Authority, client_context
from tests.fakes.certificates import new_pair, write_pair
from tests.fakes.logs import awaitable_logs, until_logged
from tests.fakes.pickers.applications import get, options_for_tests, running
from tests.fakes.pool_files import MANIFEST

CA_FILE = "scrapers.pem"


class OneToken:
    """Knows one token, whose owner may do anything."""

    async def authenticate(self, token: str) -> Identity | None:
        return Identity(username="prometheus") if token == "known" else None

    async def authorize(self, identity: Identity, path: str, verb: str) -> bool:
        return True


def files_of(folder: Path, authority: bytes) -> HttpTls:
    """A certificate, and the CA of those who may connect."""
    write_pair(folder / "certs", new_pair())
    (folder / CA_FILE).write_bytes(authority)
    return HttpTls(cert_dir=folder / "certs", client_ca_file=folder / CA_FILE)


@asynccontextmanager
async def serving(
    folder: Path, authority: bytes, guard: MetricsGuard | None = None
) -> AsyncIterator[int]:
    """A metrics port that lets in whom this CA knows."""
    tls = files_of(folder, authority)
    pages = metrics_pages(Metrics(), dict, guard)
    port = HttpPort(pages, "127.0.0.1", 0, port_flag="--metrics-port", tls=tls)
    number = await port.start()
    try:
        yield number
    finally:
        await port.stop()


async def status(
    port: int,
    pair: CertificatePair | None,
    folder: Path,
    path: str = "/",
    headers: Mapping[str, str] | None = None,
) -> int:
    """What a scraper is answered; each has a connection of its own."""
    url = f"https://127.0.0.1:{port}{path}"
    context = client_context(pair, folder)
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, ssl=context, headers=headers) as response,
    ):
        return response.status


@pytest.fixture
def scrapers() -> Authority:
    return Authority("scrapers")


@pytest.mark.parametrize("path", ["/metrics", "/debug/plugins/state", "/healthz"])
async def test_a_scraper_whose_certificate_is_of_the_ca_reads_every_page(
    scrapers: Authority, tmp_path: Path, path: str
) -> None:
    async with serving(tmp_path, scrapers.pem) as port:
        assert await status(port, scrapers.issue("prometheus"), tmp_path, path) == 200


@pytest.mark.parametrize("path", ["/metrics", "/debug/plugins/state", "/healthz"])
async def test_nobody_reads_a_page_without_a_certificate(
    scrapers: Authority, tmp_path: Path, path: str
) -> None:
    async with serving(tmp_path, scrapers.pem) as port:
        with pytest.raises(aiohttp.ClientError):
            await status(port, None, tmp_path, path)


async def test_a_certificate_stands_for_no_token_where_tokens_are_asked_for_and_vice_versa(
    scrapers: Authority, tmp_path: Path
) -> None:
    guard = MetricsGuard(Access(OneToken()), lambda reason: None)
    pair, known = scrapers.issue("prometheus"), {"Authorization": "Bearer known"}
    async with serving(tmp_path, scrapers.pem, guard) as port:
        assert await status(port, pair, tmp_path, "/metrics") == 401
        assert await status(port, pair, tmp_path, "/metrics", known) == 200
        with pytest.raises(aiohttp.ClientError):
            await status(port, None, tmp_path, "/metrics", known)


async def test_the_flags_reach_the_metrics_port_and_no_other(
    scrapers: Authority, tmp_path: Path
) -> None:
    tls = files_of(tmp_path, scrapers.pem)
    pool_file = tmp_path / "pool.yaml"
    pool_file.write_text(MANIFEST)
    options = options_for_tests(
        pool_file=pool_file,
        metrics_cert_dir=tls.cert_dir,
        metrics_client_ca_file=tls.client_ca_file,
    )
    async with running(options) as (_, ports):
        pair = scrapers.issue("prometheus")
        assert await status(ports.metrics, pair, tmp_path, "/metrics") == 200
        with pytest.raises(aiohttp.ClientError):
            await status(ports.metrics, None, tmp_path, "/metrics")
        assert (await get(ports.admin, "/pool")).status == 200


async def test_a_certificate_of_another_ca_is_refused_whatever_it_is_called(
    scrapers: Authority, tmp_path: Path
) -> None:
    async with serving(tmp_path, scrapers.pem) as port:
        with pytest.raises(aiohttp.ClientError):
            await status(port, Authority("scrapers").issue("prometheus"), tmp_path)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1")
async def test_tls_before_1_2_is_refused(scrapers: Authority, tmp_path: Path) -> None:
    context = client_context(scrapers.issue("prometheus"), tmp_path)
    context.set_ciphers("ALL:@SECLEVEL=0")  # else the client itself would refuse what is old
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    async with serving(tmp_path, scrapers.pem) as port:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("127.0.0.1", port, ssl=context)


async def test_an_intermediate_ca_is_trusted_without_its_root(tmp_path: Path) -> None:
    intermediate = Authority("intermediate", Authority("root"))
    async with serving(tmp_path, intermediate.pem) as port:
        assert await status(port, intermediate.issue("prometheus"), tmp_path, "/healthz") == 200


async def test_a_ca_that_is_exchanged_lets_in_its_own_and_the_other_ones_no_longer(
    scrapers: Authority, tmp_path: Path
) -> None:
    successor = Authority("successor")
    async with serving(tmp_path, scrapers.pem) as port:
        with awaitable_logs() as lines:
            (tmp_path / CA_FILE).write_text("broken")
            refused = await until_logged(lines, "certificate not reloaded, the old one stays")
            assert await status(port, scrapers.issue("old"), tmp_path, "/healthz") == 200

            (tmp_path / CA_FILE).write_bytes(successor.pem)
            await until_logged(lines, "certificate reloaded")

        assert await status(port, successor.issue("new"), tmp_path, "/healthz") == 200
        with pytest.raises(aiohttp.ClientError):
            await status(port, scrapers.issue("old"), tmp_path)
    assert "--metrics-client-ca-file" in refused["error"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "can't read"), (b"", "no PEM certificate"), (b"\xff", "no PEM certificate")],
    ids=["missing", "empty", "no text"],
)
async def test_a_ca_that_can_not_be_read_is_an_error_that_names_flag_and_file(
    tmp_path: Path, content: bytes | None, problem: str
) -> None:
    write_pair(tmp_path, new_pair())
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    tls = HttpTls(cert_dir=tmp_path, client_ca_file=path)
    port = HttpPort(metrics_pages(Metrics(), dict), "127.0.0.1", 0, port_flag="", tls=tls)

    with pytest.raises(ConfigError, match=f"--metrics-client-ca-file: .*{problem}"):
        await port.start()
    await port.stop()
