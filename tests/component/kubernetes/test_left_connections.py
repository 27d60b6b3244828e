"""Connections to an API server that were given up do not outlive the client."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import uvloop
from kubernetes_asyncio.client import Configuration

from epp.kubernetes.answers import KubeUnreachable
from epp.kubernetes.client import KubeClient
from epp.kubernetes.credentials import Credentials
from tests.fakes.certificates import new_pair, write_pair

PODS = "/api/v1/namespaces/models/pods"
HEAD = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 1000\r\n\r\n"


class FrozenServer:
    """Speaks TLS as far as it is told to, and then neither answers nor hangs up."""

    def __init__(self, folder: Path, *, shakes_hands: bool = True, answer: bytes = b"") -> None:
        write_pair(folder, new_pair())
        self.authority = str(folder / "tls.crt")
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        self._shakes_hands = shakes_hands
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self.reached = threading.Event()
        """A request has come, or as much as is waited for."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    @contextmanager
    def running(self) -> Iterator[FrozenServer]:
        self._thread.start()
        try:
            yield self
        finally:
            self._over.set()
            self._listener.shutdown(socket.SHUT_RDWR)
            self._thread.join()
            self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            with connection:
                if not self._shakes_hands:
                    self._freeze()
                    return
                with self._tls.wrap_socket(connection, server_side=True) as secured:
                    secured.recv(65_536)
                    secured.sendall(self._answer)
                    self._freeze()

    def _freeze(self) -> None:
        self.reached.set()
        self._over.wait()


class Unhurried:
    """Credentials whose renewal takes for ever."""

    def __init__(self, server: FrozenServer) -> None:
        configuration = Configuration()
        configuration.host = server.url
        configuration.ssl_ca_cert = server.authority
        configuration.verify_ssl = False
        self.renewing = asyncio.Event()
        self.credentials = Credentials(configuration=configuration, renew=self._renew)

    async def _renew(self) -> None:
        self.renewing.set()
        await asyncio.Event().wait()


async def ask(client: KubeClient, response_timeout: float = 30.0) -> None:
    async with client.request("GET", PODS, response_timeout=response_timeout):
        pass


async def give_up_in_time(server: FrozenServer) -> None:
    client = KubeClient(Unhurried(server).credentials)
    with pytest.raises(KubeUnreachable):
        await ask(client, response_timeout=0.2)
    await client.close()


async def be_cancelled(server: FrozenServer) -> None:
    client = KubeClient(Unhurried(server).credentials)
    asking = asyncio.ensure_future(ask(client))
    await asyncio.to_thread(server.reached.wait)
    await cancelled(asking)
    await client.close()


async def be_cancelled_while_renewing(server: FrozenServer) -> None:
    unhurried = Unhurried(server)
    client = KubeClient(unhurried.credentials)
    asking = asyncio.ensure_future(ask(client))
    await unhurried.renewing.wait()
    await cancelled(asking)
    await client.close()


async def cancelled(task: asyncio.Future[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def left_by(
    scenario: Callable[[FrozenServer], Awaitable[None]],
    server: FrozenServer,
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> list[str]:
    """What Python complains of when a process's event loop is over."""

    async def run() -> None:
        await scenario(server)

    gc.collect()  # what other tests left is theirs
    with warnings.catch_warnings(record=True) as caught, server.running():
        warnings.simplefilter("always")
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(run())
        gc.collect()
    return [str(each.message) for each in caught if issubclass(each.category, ResourceWarning)]


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize(
    ("scenario", "shakes_hands", "answer"),
    [
        (give_up_in_time, True, b""),
        (give_up_in_time, False, b""),
        (be_cancelled, True, b""),
        (be_cancelled, False, b""),
        (be_cancelled_while_renewing, True, HEAD),
    ],
    ids=["silence", "no handshake", "cancelled", "cancelled in a handshake", "renewing"],
)
def test_nothing_is_left_of_a_request_that_was_given_up(
    tmp_path: Path,
    scenario: Callable[[FrozenServer], Awaitable[None]],
    shakes_hands: bool,
    answer: bytes,
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    server = FrozenServer(tmp_path, shakes_hands=shakes_hands, answer=answer)

    assert left_by(scenario, server, loop) == []
