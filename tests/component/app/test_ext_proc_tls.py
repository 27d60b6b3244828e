"""TLS of the ext_proc port as flags ask for it, on the native transport."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import grpc
import pytest

from epp.app.application import Application
from epp.app.options import ServeOptions
from epp.framework.errors import ConfigError
from tests.fakes.certificates import certificate_of, new_pair, shake_hands, untrusting, write_pair
from tests.fakes.eventually import eventually
from tests.fakes.logs import awaitable_logs, until_logged
from tests.fakes.pickers.applications import BODY, options_for_tests, running
from tests.fakes.pickers.gateway_client import gateway_client
from tests.fakes.pool_files import MANIFEST

POOL = MANIFEST.replace("FailClose", "FailOpen") + "endpoints: [{name: gpu-a, address: 10.0.0.1}]"


@pytest.fixture
def pool_file(tmp_path: Path) -> Path:
    path = tmp_path / "pool.yaml"
    path.write_text(POOL)
    return path


def options(pool_file: Path, **others: object) -> ServeOptions:
    return options_for_tests(pool_file=pool_file, transport="native", secure_serving=True, **others)


def client(
    *, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, ciphers: str | None = None
) -> ssl.SSLContext:
    context = untrusting()
    context.set_ciphers(ciphers or "ALL:@SECLEVEL=0")
    if newest < ssl.TLSVersion.TLSv1_2:
        with pytest.warns(DeprecationWarning, match="TLSVersion.TLSv1_1"):
            context.minimum_version = context.maximum_version = newest
    else:
        context.maximum_version = newest
    return context


async def agreed(port: int, context: ssl.SSLContext) -> tuple[str, str]:
    """Version and cipher."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    cipher, version, _ = writer.get_extra_info("cipher")
    tls = writer.get_extra_info("ssl_object")
    assert tls.selected_alpn_protocol() == "h2"
    writer.transport.abort()
    return tls.version() or version, cipher


async def is_turned_away(port: int, context: ssl.SSLContext) -> bool:
    try:
        await agreed(port, context)
    except (ssl.SSLError, ConnectionError):
        return True
    return False


async def test_a_client_older_than_tls_1_2_is_turned_away(pool_file: Path) -> None:
    async with running(options(pool_file)) as (_, ports):
        assert await is_turned_away(ports.grpc, client(newest=ssl.TLSVersion.TLSv1_1))
        version, _ = await agreed(ports.grpc, client(newest=ssl.TLSVersion.TLSv1_2))
        assert version == "TLSv1.2"


async def test_a_client_older_than_the_minimum_is_turned_away(pool_file: Path) -> None:
    settings = options(pool_file, tls_min_version="VersionTLS13")
    async with running(settings) as (_, ports):
        assert await is_turned_away(ports.grpc, client(newest=ssl.TLSVersion.TLSv1_2))
        version, _ = await agreed(ports.grpc, client())
        assert version == "TLSv1.3"


async def test_a_client_without_a_cipher_in_the_list_is_turned_away(pool_file: Path) -> None:
    suites = ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",)
    other = "ECDHE-ECDSA-AES128-GCM-SHA256"
    wanted = "ECDHE-ECDSA-AES256-GCM-SHA384"
    settings = options(pool_file, tls_cipher_suites=suites)
    async with running(settings) as (_, ports):
        old = ssl.TLSVersion.TLSv1_2
        assert await is_turned_away(ports.grpc, client(newest=old, ciphers=other))
        _, cipher = await agreed(ports.grpc, client(newest=old, ciphers=f"{other}:{wanted}"))
        assert cipher == wanted


async def test_a_certificate_that_changes_is_for_new_connections(
    pool_file: Path, tmp_path: Path
) -> None:
    first, second = new_pair(), new_pair()
    directory = tmp_path / "tls"
    write_pair(directory, first)
    settings = options(pool_file, cert_path=directory, enable_cert_reload=True)
    trusting_first = grpc.ssl_channel_credentials(root_certificates=first.chain)
    with awaitable_logs() as logs:
        async with (
            running(settings) as (application, ports),
            gateway_client(ports.grpc, trusting_first, host="localhost") as gateway,
        ):
            await eventually(lambda: bool(application.snapshot().by_address))
            exchange = gateway.exchange()
            await exchange.request_headers()

            write_pair(directory, second)
            await until_logged(logs, "certificate reloaded")

            assert (await shake_hands(ports.grpc)).certificate == certificate_of(second)
            await exchange.request_body(BODY, end=True)
            assert await exchange.picked() == "10.0.0.1:8000"
            exchange.cancel()


@pytest.mark.parametrize(
    ("flag", "others"),
    [
        ("--tls-min-version", {"tls_min_version": "VersionTLS11"}),
        ("--tls-cipher-suites", {"tls_cipher_suites": ("TLS_RSA_WITH_AES_128_CBC_SHA",)}),
    ],
)
async def test_what_can_not_be_honoured_stops_the_start(
    pool_file: Path, flag: str, others: dict[str, object]
) -> None:
    application = Application(options(pool_file, **others))
    with pytest.raises(ConfigError, match=flag):
        await application.start()
    await application.stop()
