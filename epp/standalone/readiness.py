"""Waiting until a request that goes the whole way is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp
import msgspec

from epp.framework.errors import PickerError
from epp.standalone.envoy_clusters import Address

POLL_SECONDS = 0.05
SERVER_ERROR = 500
_REQUEST_ID = "epp-standalone"
"""Among the picker's decisions are those on requests from here, which nobody else has sent."""


class NotReady(PickerError):
    """The deadline passed; says what the last attempt met."""


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


async def envoy_is_live(admin: Address, *, timeout_seconds: float) -> None:
    """Wait until Envoy has started, its first health check of the picker included."""

    async def is_live(session: aiohttp.ClientSession) -> str | None:
        async with session.get(f"http://{admin}/ready") as response:
            text = (await response.text()).strip()
            return None if response.status < SERVER_ERROR else f"Envoy is {text}"

    await _poll(is_live, timeout_seconds)


async def models_through(listener: Address, *, timeout_seconds: float) -> list[str]:
    """Ask for the models by way of Envoy and the picker until a model server answers."""
    models: list[str] = []

    async def is_answered(session: aiohttp.ClientSession) -> str | None:
        named = {"x-request-id": _REQUEST_ID}
        async with session.get(f"http://{listener}/v1/models", headers=named) as response:
            body = await response.read()
        if response.status >= SERVER_ERROR:
            text = body.decode("utf-8", "replace").strip()[:200]
            return f"GET /v1/models was answered with {response.status} {text}".rstrip()
        models.extend(_model_names(body))
        return None

    await _poll(is_answered, timeout_seconds)
    return models


def _model_names(body: bytes) -> list[str]:
    try:
        return [model.id for model in msgspec.json.decode(body, type=_Models).data]
    except msgspec.MsgspecError:
        return []


async def _poll(
    attempt: Callable[[aiohttp.ClientSession], Awaitable[str | None]], timeout_seconds: float
) -> None:
    """Repeat until `attempt` has no complaint; the last one is raised when time is up."""
    complaint = "nothing was tried"
    try:
        async with (
            asyncio.timeout(timeout_seconds),
            aiohttp.ClientSession(trust_env=False) as session,
        ):
            while True:
                try:
                    found = await attempt(session)
                except aiohttp.ClientError as error:
                    found = str(error)
                if found is None:
                    return
                complaint = found
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise NotReady(f"not ready after {timeout_seconds:g} seconds: {complaint}") from None
