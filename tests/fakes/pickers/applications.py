"""An `Application` in the test's process, and what its ports say."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import yaml
from grpc_health.v1 import health_pb2

from epp.app.application import Application
from epp.app.listeners import BoundPorts
from epp.app.options import ServeOptions
from tests.fakes.pickers.chosen_transport import TRANSPORT
from tests.fakes.pickers.gateway_client import Answer, gateway_client

BODY = b'{"model":"m","prompt":"a"}'
# Nothing is scored, so that the best, all of them, take turns; nobody is asked for metrics.
TAKING_TURNS = """
plugins: [{type: max-score-picker}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: max-score-picker}]}]
dataLayer: {injectDefaults: false}
"""


def options_for_tests(**others: object) -> ServeOptions:
    """Free ports on loopback that ask nobody for a token, and no time lost at the end."""
    values: dict[str, Any] = {
        "bind_address": "127.0.0.1",
        "secure_serving": False,
        "transport": TRANSPORT,
        "drain_timeout": 0.0,
        "shutdown_grace": 5.0,
        "metrics_endpoint_auth": False,
        "config_text": "" if "config_file" in others else TAKING_TURNS,
        **dict.fromkeys(("grpc_port", "grpc_health_port", "metrics_port", "admin_port"), 0),
        **others,
    }
    return ServeOptions(**values)


def kubeconfig_for(server: str, folder: Path) -> Path:
    """A kubeconfig that leads to the API server at a URL."""
    path = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "fake", "cluster": {"server": server}}],
        "users": [{"name": "test", "user": {"token": "secret"}}],
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "test"}}],
        "current-context": "fake",
    }
    path.write_text(yaml.safe_dump(config))
    return path


@contextlib.asynccontextmanager
async def running(
    settings: ServeOptions, **collaborators: Any
) -> AsyncIterator[tuple[Application, BoundPorts]]:
    """A process that serves until the block is left."""
    application = Application(settings, **collaborators)
    ports = await application.start()
    try:
        yield application, ports
    finally:
        application.stop_at_once()
        await application.stop()


async def get(port: int, path: str) -> aiohttp.ClientResponse:
    """A page, read to its end."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{path}") as response,
    ):
        await response.read()
        return response


async def health(port: int, service: str) -> str:
    """What a health check is told."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        answer = await check(health_pb2.HealthCheckRequest(service=service))
        return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))


async def pool_page(port: int) -> dict[str, Any]:
    """The pool as the admin port shows it."""
    document: dict[str, Any] = await (await get(port, "/pool")).json()
    return document


async def answer(port: int) -> Answer:
    """The first answer to a request."""
    async with gateway_client(port) as client:
        exchange = client.exchange()
        await exchange.post(BODY)
        return await exchange.answer()


async def picks(port: int, count: int = 8) -> set[str]:
    """Where some requests are sent that never end."""
    async with gateway_client(port) as client:
        addresses = set()
        for _ in range(count):
            exchange = client.exchange()
            await exchange.post(BODY)
            addresses.add(await exchange.picked())
            exchange.cancel()
        return addresses
