"""Requests to an API server: what comes back, and how it is let in and found out."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from epp.kubernetes.answers import KubeResponse, KubeUnreachable, status_error
from epp.kubernetes.client import KubeClient
from epp.kubernetes.credentials import find_credentials
from tests.fakes.eventually import eventually
from tests.fakes.kubernetes.access import plain_client
from tests.fakes.kubernetes.api import FakeKubeApi
from tests.fakes.kubernetes.objects import Manifest, pod
from tests.kube.credentials import Credentials, kubeconfig

PODS = "/api/v1/namespaces/models/pods"


async def names(client: KubeClient) -> list[str]:
    """The pods of a list."""
    async with client.request("GET", PODS) as response:
        if response.status != 200:
            raise await status_error(response)
        page = msgspec.json.decode(await response.read())
    return [item["metadata"]["name"] for item in page["items"]]


async def test_a_body_is_read_whole_or_as_it_comes(kube: FakeKubeApi, client: KubeClient) -> None:
    await kube.create(pod("a"))

    async with client.request("GET", f"{PODS}/a") as response:
        whole = await response.read()
        assert response.status == 200
        assert response.headers["content-type"].startswith("application/json")
    async with client.request("GET", f"{PODS}/a") as response:
        chunks = [chunk async for chunk in response.chunks()]

    assert b"".join(chunks) == whole


async def test_a_query_is_quoted(kube: FakeKubeApi, client: KubeClient) -> None:
    await kube.create(pod("a", {"app": "llama"}))
    await kube.create(pod("b", {"app": "other"}))

    query = {"labelSelector": "app in (llama, mistral),!tier"}
    async with client.request("GET", PODS, query=query) as response:
        assert b'"name": "a"' in await response.read()

    assert kube.seen[-1].query == query


async def test_an_object_is_written_only_as_it_was_read(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    created = await kube.create(pod("a"))
    await kube.patch(created, {"metadata": {"labels": {"tier": "new"}}})

    async with client.request("PUT", f"{PODS}/a", body=msgspec.json.encode(created)) as response:
        error = await status_error(response)
    async with client.request("POST", PODS, body=msgspec.json.encode(pod("b"))) as response:
        status = response.status

    assert (error.status, error.reason) == (409, "Conflict")
    assert status == 201


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "503 ServiceUnavailable: as the test wants it"),
        ("<html>\n  <b>upstream</b> failed", "503: <html> <b>upstream</b> failed"),
        ("x" * 9000, "503: " + "x" * 500),
        ("[1]", "503: [1]"),
        ("", "503"),
    ],
    ids=["status", "html", "long", "other JSON", "empty"],
)
async def test_an_error_says_what_the_server_said(
    kube: FakeKubeApi, client: KubeClient, text: str | None, message: str
) -> None:
    kube.fail(503, reason="ServiceUnavailable", text=text, headers={"Retry-After": "3"})

    async with client.request("GET", PODS) as response:
        error = await status_error(response)

    assert str(error) == message
    assert error.retry_after == 3.0


async def test_a_date_to_retry_after_is_no_number_of_seconds(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    kube.fail(503, headers={"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"})

    async with client.request("GET", PODS) as response:
        error = await status_error(response)

    assert error.retry_after is None


@asynccontextmanager
async def server_that_sends(
    status: int, pieces: Iterable[bytes], encoding: str = "identity"
) -> AsyncIterator[KubeClient]:
    """A client of what answers with these."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status, headers={"Content-Encoding": encoding})
        await response.prepare(request)
        with suppress(ConnectionError):
            for piece in pieces:
                await response.write(piece)
        return response

    pages = web.Application()
    pages.router.add_get("/{path:.*}", answer)
    async with TestServer(pages) as server:
        client = plain_client(str(server.make_url("")).rstrip("/"))
        try:
            yield client
        finally:
            await client.close()


ENDLESS = itertools.repeat(b" " * (1 << 20))


async def test_an_answer_that_never_ends_is_given_up_rather_than_kept() -> None:
    async with server_that_sends(200, ENDLESS) as client:
        with pytest.raises(KubeUnreachable, match=r"^an answer of more than 64 MiB is not read$"):
            await names(client)


async def test_an_answer_is_as_long_as_what_it_unfolds_to() -> None:
    packed = gzip.compress(b" " * ((64 << 20) + 1))
    async with server_that_sends(200, [packed], "gzip") as client:
        with pytest.raises(KubeUnreachable, match=r"^an answer of more than 64 MiB is not read$"):
            await names(client)


async def test_an_error_that_never_ends_is_given_up_sooner() -> None:
    async with server_that_sends(500, ENDLESS) as client:
        with pytest.raises(KubeUnreachable, match=r"^an answer of more than 1 MiB is not read$"):
            await names(client)


async def test_a_server_that_is_away_is_unreachable(kube: FakeKubeApi, client: KubeClient) -> None:
    await kube.kill()

    with pytest.raises(KubeUnreachable):
        await names(client)


async def test_a_server_that_does_not_answer_is_unreachable(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await kube.freeze()

    with pytest.raises(KubeUnreachable, match="timed out"):
        async with client.request("GET", PODS, response_timeout=0.05):
            pass
    await kube.thaw()


async def test_a_body_that_stops_coming_is_unreachable(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    timeout = aiohttp.ClientTimeout(sock_read=0.05)
    query = {"watch": "true", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}

    async with client.request("GET", PODS, query=query, timeout=timeout) as response:
        with pytest.raises(KubeUnreachable):
            await read_all(response)


async def test_a_body_that_is_cut_is_unreachable(kube: FakeKubeApi, client: KubeClient) -> None:
    async with client.request("GET", PODS, query={"watch": "true"}) as response:
        kube.cut()
        with pytest.raises(KubeUnreachable):
            await read_all(response)


async def test_an_answer_that_is_left_early_ends_its_connection(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    async with client.request("GET", PODS, query={"watch": "true"}):
        assert kube.watches("pods") == 1

    await eventually(lambda: not kube.connections)


async def test_an_answer_that_was_read_leaves_its_connection_to_the_next(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    await names(client)
    (first,) = kube.connections
    await names(client)

    assert kube.connections == [first]


async def test_a_connection_to_a_dead_peer_is_noticed_by_the_kernel(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    async with client.request("GET", PODS, query={"watch": "true"}) as response:
        connection = response._response.connection
        assert connection is not None
        assert connection.transport is not None
        sock = connection.transport.get_extra_info("socket")

        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 15


async def test_refused_credentials_are_an_answer_like_others(kube: FakeKubeApi) -> None:
    kube.tokens = {"good"}

    async with kube.client("bad") as client, client.request("GET", PODS) as response:
        error = await status_error(response)
    async with kube.client("good") as client:
        assert await names(client) == []

    assert error.status == 401
    assert "bad" not in str(error)


class PodOfTheCluster:
    """A service account's folder in a pod, and the API server it belongs to."""

    def __init__(self, folder: Path) -> None:
        self.mounted = folder / "mounted"
        self.mounted.mkdir()
        self._folder = folder
        self.api = FakeKubeApi()
        self.rotate_authority()
        self.write_token("first")

    def write_token(self, token: str) -> None:
        (self.mounted / "token").write_text(f"{token}\n")
        self.api.tokens = {token}

    def rotate_authority(self) -> None:
        """Another CA; the server shows a certificate of it from its next start on."""
        files = Credentials(self._folder)
        files.write()
        self.api.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.api.tls.load_cert_chain(files.server_certificate, files.server_key)

    def mount_authority(self) -> None:
        (self.mounted / "ca.crt").write_bytes(Credentials(self._folder).ca.read_bytes())

    @asynccontextmanager
    async def client(self) -> AsyncIterator[KubeClient]:
        environ = {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.api.port),
        }
        found = await find_credentials(environ=environ, service_account=self.mounted)
        client = KubeClient(found)
        try:
            yield client
        finally:
            await client.close()


@pytest.fixture
async def inside(tmp_path: Path) -> AsyncIterator[PodOfTheCluster]:
    """A pod in a cluster with TLS and tokens."""
    cluster = PodOfTheCluster(tmp_path)
    cluster.mount_authority()
    await cluster.api.start()
    yield cluster
    await cluster.api.kill()


async def test_a_token_that_was_rotated_is_read_anew_and_the_request_repeated(
    inside: PodOfTheCluster,
) -> None:
    async with inside.client() as client:
        assert await names(client) == []
        inside.write_token("second")
        assert await names(client) == []

    assert [seen.token for seen in inside.api.seen] == ["first", "first", "second"]


@pytest.mark.parametrize("content", ["", None], ids=["empty", "missing"])
async def test_a_token_that_cant_be_read_leaves_the_old_one(
    inside: PodOfTheCluster, content: str | None
) -> None:
    path = inside.mounted / "token"

    async with inside.client() as client:
        if content is None:
            path.unlink()
        else:
            path.write_text(content)
        assert await names(client) == []
        inside.api.tokens = {"other"}
        async with client.request("GET", PODS) as response:
            assert response.status == 401


async def test_a_cluster_may_change_its_authority(inside: PodOfTheCluster) -> None:
    async with inside.client() as client:
        assert await names(client) == []
        inside.rotate_authority()
        await inside.api.restart()
        with pytest.raises(KubeUnreachable, match="certificate verify failed"):
            await names(client)
        inside.mount_authority()
        assert await names(client) == []


async def test_all_requests_that_meet_another_authority_go_on_under_it(
    inside: PodOfTheCluster,
) -> None:
    async with inside.client() as client:
        inside.rotate_authority()
        await inside.api.restart()
        inside.mount_authority()

        assert await asyncio.gather(*(names(client) for _ in range(5))) == [[]] * 5


async def test_an_authority_that_cant_be_read_is_tried_again(inside: PodOfTheCluster) -> None:
    async with inside.client() as client:
        inside.rotate_authority()
        await inside.api.restart()
        (inside.mounted / "ca.crt").write_text("half of a certif")
        with pytest.raises(KubeUnreachable):
            await names(client)
        (inside.mounted / "ca.crt").unlink()
        with pytest.raises(KubeUnreachable):
            await names(client)
        inside.mount_authority()
        assert await names(client) == []


async def test_a_kubeconfig_is_read_anew_when_its_token_is_refused(
    inside: PodOfTheCluster, tmp_path: Path
) -> None:
    path = tmp_path / "kubeconfig"
    authority = inside.mounted / "ca.crt"
    path.write_text(kubeconfig(inside.api.url, authority, "first"))
    client = await KubeClient.connect(path)
    try:
        assert await names(client) == []
        inside.api.tokens = {"second"}
        path.write_text(kubeconfig(inside.api.url, authority, "second"))
        assert await names(client) == []
    finally:
        await client.close()

    assert client.server == inside.api.url


async def read_all(response: KubeResponse) -> list[Manifest]:
    return [msgspec.json.decode(chunk) async for chunk in response.chunks()]
