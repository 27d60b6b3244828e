from __future__ import annotations

import errno
import socket
import ssl

import pytest
from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientConnectorSSLError,
    ServerDisconnectedError,
    ServerTimeoutError,
)
from aiohttp.client_reqrep import ConnectionKey

from epp.support.http_problems import http_problem

KEY = ConnectionKey("nowhere", 9091, True, True, None, None, None)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            ClientConnectorError(KEY, ConnectionRefusedError(errno.ECONNREFUSED, "Connect call")),
            "connection refused",
        ),
        (
            ClientConnectorDNSError(KEY, socket.gaierror(socket.EAI_NONAME, "not known")),
            "the name is not known to DNS",
        ),
        (ConnectionResetError(errno.ECONNRESET, "x"), "connection reset by peer"),
        (TimeoutError(), "timed out"),
        (ServerTimeoutError("long"), "timed out"),
        (ServerDisconnectedError(), "Server disconnected"),
    ],
    ids=["refused", "DNS", "reset", "timeout", "timeout of a read", "disconnected"],
)
def test_why_nobody_answers_is_told_in_a_few_words(error: Exception, words: str) -> None:
    assert http_problem(error) == words


@pytest.mark.parametrize(
    "error",
    [
        ClientConnectorCertificateError(KEY, ssl.SSLCertVerificationError("self-signed")),
        ClientConnectorSSLError(KEY, ssl.SSLError(1, "self-signed")),
    ],
)
def test_what_is_wrong_with_tls_is_told_as_it_is(error: Exception) -> None:
    assert "self-signed" in http_problem(error)
