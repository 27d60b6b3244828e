from __future__ import annotations

import asyncio
import datetime
import gzip
import logging
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from epp.admin.http_port import HttpPort
from epp.admin.http_tls import HttpTls
from epp.admin.metrics_pages import metrics_pages
from epp.framework.errors import ConfigError
from epp.observability.metrics import Metrics
from tests.fakes.certificates import certificate_of, new_pair, shake_hands, write_pair
from tests.fakes.logs import awaitable_logs, until_logged

STATE = {
    "queue": {"name": "queue", "type": "queue-scorer", "state": {"endpoints": 3}},
    "random": {
        "name": "random",
        "type": "random-picker",
        "message": "plugin does not support state collection",
    },
}

OF_THE_BODY = {"Content-Length", "Transfer-Encoding", "Date"}


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
async def server(metrics: Metrics) -> AsyncIterator[HttpPort]:
    server = HttpPort(
        metrics_pages(metrics, lambda: STATE), "127.0.0.1", 0, port_flag="--metrics-port"
    )
    yield server
    await server.stop()


@pytest.fixture
async def client(server: HttpPort) -> AsyncIterator[aiohttp.ClientSession]:
    port = await server.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        yield session


async def test_plugin_states_are_told_as_json(client: aiohttp.ClientSession) -> None:
    async with client.get("/debug/plugins/state") as response:
        document = await response.json()

    assert response.content_type == "application/json"
    assert document["plugins"] == STATE
    assert datetime.datetime.fromisoformat(document["timestamp"]).tzinfo is not None


@pytest.mark.parametrize("path", ["/metrics", "/debug/plugins/state", "/healthz"])
@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_only_get_and_head_are_allowed(
    client: aiohttp.ClientSession, path: str, method: str
) -> None:
    async with client.request(method, path) as response:
        assert response.status == 405
        assert response.headers["Allow"] == "GET,HEAD"


@pytest.mark.parametrize("path", ["/metrics", "/debug/plugins/state", "/healthz"])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_head_tells_what_get_would_without_the_page(
    client: aiohttp.ClientSession, path: str, encoding: str
) -> None:
    heads = []
    for method in ("GET", "HEAD"):
        async with client.request(method, path, headers={"Accept-Encoding": encoding}) as response:
            body = await response.read()
        told = {name.title(): value for name, value in response.headers.items()}
        heads.append((response.status, {k: v for k, v in told.items() if k not in OF_THE_BODY}))
        assert bool(body) == (method == "GET")

    assert heads[0] == heads[1]


@pytest.mark.parametrize("encoding", [b"identity", b"gzip"])
async def test_connections_go_on_after_head(server: HttpPort, encoding: bytes) -> None:
    port = await server.start()
    both = b"HEAD /metrics HTTP/1.1\r\nHost: a\r\nAccept-Encoding: %b\r\n\r\n" % encoding
    both += b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(both)
    answers = await reader.read()
    writer.close()

    head, _, next_answer = answers.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert next_answer.startswith(b"HTTP/1.1 200 ")
    assert next_answer.endswith(b"\r\n\r\nok\n")


async def test_health_is_ok(client: aiohttp.ClientSession) -> None:
    async with client.get("/healthz") as response:
        assert (response.status, await response.text()) == (200, "ok\n")


async def test_any_other_path_is_not_found_in_plain_text(client: aiohttp.ClientSession) -> None:
    async with client.get("/", headers={"Accept": "text/html"}) as response:
        assert response.status == 404
        assert response.content_type == "text/plain"


async def test_a_state_that_is_no_json_is_shown_by_its_representation() -> None:
    state: Mapping[str, object] = {"odd": {"name": "odd", "type": "odd", "state": 1 + 2j}}
    server = HttpPort(
        metrics_pages(Metrics(), lambda: state), "127.0.0.1", 0, port_flag="--metrics-port"
    )
    port = await server.start()
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/debug/plugins/state") as response,
    ):
        assert (await response.json())["plugins"]["odd"]["state"] == "(1+2j)"
    await server.stop()


async def test_a_state_that_can_not_be_told_costs_nobody_else_theirs() -> None:
    endless: list[object] = []
    endless.append(endless)
    states: Mapping[str, object] = {**STATE, "endless": endless, "text": {"state": "\ud800"}}
    server = HttpPort(
        metrics_pages(Metrics(), lambda: states), "127.0.0.1", 0, port_flag="--metrics-port"
    )
    port = await server.start()
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/debug/plugins/state") as response,
    ):
        plugins = (await response.json())["plugins"]
    await server.stop()

    assert plugins == {
        **STATE,
        "endless": {"message": "no JSON: RecursionError"},
        "text": {"message": "no JSON: UnicodeEncodeError"},
    }


async def test_the_page_is_compressed_for_those_who_accept_it(
    client: aiohttp.ClientSession,
) -> None:
    async with client.get(
        "/metrics", headers={"Accept-Encoding": "gzip"}, auto_decompress=False
    ) as response:
        body = await response.read()

    assert response.headers["Content-Encoding"] == "gzip"
    assert b"epp_ready 0" in gzip.decompress(body)


class MetricsInSlices(Metrics):
    """Notes how often other work had its turn when each slice of the page is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = 0
        self.turns_at_slice: list[int] = []

    def exposition(self, accept: str = "") -> tuple[Iterator[bytes], str]:
        return self._slices(), super().exposition(accept)[1]

    def _slices(self) -> Iterator[bytes]:
        for _ in range(5):
            self.turns_at_slice.append(self.turns)
            yield b"# a slice\n"

    async def other_work(self) -> None:
        """Takes turns for ever."""
        while True:
            self.turns += 1
            await asyncio.sleep(0)


async def test_other_work_has_its_turn_between_the_slices_of_a_page() -> None:
    metrics = MetricsInSlices()
    server = HttpPort(metrics_pages(metrics, dict), "127.0.0.1", 0, port_flag="--metrics-port")
    port = await server.start()

    async with asyncio.TaskGroup() as tasks, aiohttp.ClientSession() as session:
        work = tasks.create_task(metrics.other_work())
        async with session.get(f"http://127.0.0.1:{port}/metrics") as response:
            page = await response.read()
        work.cancel()
    await server.stop()
    assert page == b"# a slice\n" * 5
    assert sorted(set(metrics.turns_at_slice)) == metrics.turns_at_slice


async def test_other_work_has_its_turn_however_many_scrape_at_once() -> None:
    metrics = MetricsInSlices()
    server = HttpPort(metrics_pages(metrics, dict), "127.0.0.1", 0, port_flag="--metrics-port")
    port = await server.start()

    async def scrape(session: aiohttp.ClientSession) -> bytes:
        async with session.get(f"http://127.0.0.1:{port}/metrics") as response:
            return await response.read()

    async with asyncio.TaskGroup() as tasks, aiohttp.ClientSession() as session:
        work = tasks.create_task(metrics.other_work())
        pages = await asyncio.gather(*(scrape(session) for _ in range(20)))
        work.cancel()
    await server.stop()
    assert set(pages) == {b"# a slice\n" * 5}
    assert sorted(set(metrics.turns_at_slice)) == metrics.turns_at_slice


async def test_no_page_is_made_for_head() -> None:
    metrics = MetricsInSlices()
    server = HttpPort(metrics_pages(metrics, dict), "127.0.0.1", 0, port_flag="--metrics-port")
    port = await server.start()

    async with (
        aiohttp.ClientSession() as session,
        session.head(f"http://127.0.0.1:{port}/metrics") as response,
    ):
        assert response.status == 200
    await server.stop()
    assert metrics.turns_at_slice == []


async def test_a_scraper_that_leaves_early_does_no_harm(
    metrics: Metrics, client: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    for index in range(300):
        metrics.request(f"model-{index}", "m", "f", 0).admitted(1)

    with caplog.at_level(logging.INFO):
        async with client.get("/metrics") as response:
            response.close()

        async with client.get("/metrics") as response:
            assert b"model-299" in await response.read()

    assert not [record for record in caplog.records if record.name == "aiohttp.server"]


async def test_a_port_that_is_taken_is_an_error_that_names_it(server: HttpPort) -> None:
    port = await server.start()
    second = HttpPort(metrics_pages(Metrics(), dict), "127.0.0.1", port, port_flag="--metrics-port")

    with pytest.raises(ConfigError, match=f"127.0.0.1:{port}: "):
        await second.start()
    await second.stop()


async def test_after_stop_nobody_listens(server: HttpPort) -> None:
    port = await server.start()
    await server.stop()

    with pytest.raises(OSError, match=str(port)):
        await asyncio.open_connection("127.0.0.1", port)


def write_certificate(directory: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (directory / "tls.crt").write_bytes(certificate.public_bytes(pem))
    (directory / "tls.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


async def test_with_a_certificate_it_speaks_https(tmp_path: Path) -> None:
    write_certificate(tmp_path)
    trust = ssl.create_default_context(cafile=tmp_path / "tls.crt")
    server = HttpPort(
        metrics_pages(Metrics(), dict),
        "127.0.0.1",
        0,
        port_flag="--metrics-port",
        tls=HttpTls(cert_dir=tmp_path),
    )
    port = await server.start()

    async with (
        aiohttp.ClientSession() as session,
        session.get(
            f"https://127.0.0.1:{port}/healthz", ssl=trust, server_hostname="localhost"
        ) as response,
    ):
        assert response.status == 200
    await server.stop()


async def test_a_certificate_that_is_renewed_is_used_and_a_broken_one_is_not(
    tmp_path: Path,
) -> None:
    first, second = new_pair(), new_pair()
    write_pair(tmp_path, first)
    server = HttpPort(
        metrics_pages(Metrics(), dict),
        "127.0.0.1",
        0,
        port_flag="--metrics-port",
        tls=HttpTls(cert_dir=tmp_path),
    )
    port = await server.start()
    with awaitable_logs() as lines:
        assert (await shake_hands(port)).certificate == certificate_of(first)

        (tmp_path / "tls.crt").write_bytes(b"broken")
        await until_logged(lines, "certificate not reloaded, the old one stays")
        assert (await shake_hands(port)).certificate == certificate_of(first)

        write_pair(tmp_path, second)
        await until_logged(lines, "certificate reloaded")
        assert (await shake_hands(port)).certificate == certificate_of(second)
    await server.stop()


async def test_a_certificate_that_is_missing_is_an_error_that_names_flag_and_file(
    tmp_path: Path,
) -> None:
    server = HttpPort(
        metrics_pages(Metrics(), dict),
        "127.0.0.1",
        0,
        port_flag="--metrics-port",
        tls=HttpTls(cert_dir=tmp_path),
    )

    with pytest.raises(ConfigError, match=r"--metrics-cert-dir: can't read .*/tls\.crt"):
        await server.start()
