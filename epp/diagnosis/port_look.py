"""What a TCP port speaks, found out by speaking to it as a gateway does that verifies nothing."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum

from cryptography import x509

from epp.diagnosis.doctor_options import HostPort

TRY_SECONDS = 2.0
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)  # and SETTINGS
_FRAME_HEAD = 9
_FRAME_TYPE = 3
_SETTINGS = 4


class Speaks(StrEnum):
    """What answers."""

    TLS = "TLS"
    PLAINTEXT = "plaintext HTTP/2"
    HTTP1 = "HTTP/1.1"
    UNKNOWN = "something else"
    NOTHING = "nothing"


class Unreachable(Exception):
    """Nobody answers there; the message says how that showed."""

    def __init__(self, message: str, *, is_refusal: bool = False) -> None:
        super().__init__(message)
        self.is_refusal = is_refusal
        """Whether the machine is there, and nobody listens on that port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortLook:
    """What was seen of a port."""

    address: HostPort
    speaks: Speaks
    alpn: str | None = None
    tls_version: str | None = None
    certificate: x509.Certificate | None = None


async def look_at_port(address: HostPort) -> PortLook:
    """Speak TLS, then plaintext HTTP/2; raises `Unreachable`."""
    await try_connection(address)
    return await _as_tls(address) or await _as_plaintext(address)


async def try_connection(address: HostPort) -> None:
    """Open a connection and close it again; raises `Unreachable`."""
    async with _connection(address):
        pass


def unverified_tls() -> ssl.SSLContext:
    """TLS as gateways speak it to a picker: HTTP/2 inside, any certificate will do."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


async def _as_tls(address: HostPort) -> PortLook | None:
    try:
        async with _connection(address, unverified_tls()) as (_, writer):
            tls: ssl.SSLObject = writer.get_extra_info("ssl_object")
            der = tls.getpeercert(binary_form=True)
            return PortLook(
                address=address,
                speaks=Speaks.TLS,
                alpn=tls.selected_alpn_protocol(),
                tls_version=tls.version(),
                certificate=_certificate(der),
            )
    except Unreachable:
        return None


async def _as_plaintext(address: HostPort) -> PortLook:
    head = b""
    try:
        async with _connection(address) as (reader, writer):
            writer.write(_PREFACE)
            async with asyncio.timeout(TRY_SECONDS):
                head = await reader.readexactly(_FRAME_HEAD)
    except asyncio.IncompleteReadError as error:
        head = error.partial
    except TimeoutError:
        return PortLook(address=address, speaks=Speaks.NOTHING)
    except (OSError, Unreachable):
        head = b""
    speaks = Speaks.UNKNOWN
    if head.startswith(b"HTTP/1"):
        speaks = Speaks.HTTP1
    elif len(head) == _FRAME_HEAD and head[_FRAME_TYPE] == _SETTINGS:
        speaks = Speaks.PLAINTEXT
    return PortLook(address=address, speaks=speaks)


@asynccontextmanager
async def _connection(
    address: HostPort, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    try:
        async with asyncio.timeout(TRY_SECONDS):
            reader, writer = await asyncio.open_connection(address.host, address.port, ssl=tls)
    except (OSError, TimeoutError, ValueError, OverflowError) as error:  # a pool may name anything
        is_refusal = isinstance(error, ConnectionRefusedError)
        raise Unreachable(_reason(error), is_refusal=is_refusal) from error
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def _certificate(der: bytes | None) -> x509.Certificate | None:
    try:
        return x509.load_der_x509_certificate(der) if der else None
    except ValueError:
        return None


def _reason(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return "the name is not known to DNS"
    if isinstance(error, ssl.SSLError):
        return f"no TLS: {error.reason or error}"
    if isinstance(error, TimeoutError):
        return f"no answer within {TRY_SECONDS:g} s"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return str(error) or type(error).__name__
