"""Single questions to the API server, as JSON, and what to do where it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec

from epp.kubernetes.answers import KubeStatusError, status_error
from epp.kubernetes.client import KubeClient

T = TypeVar("T")


async def ask(
    client: KubeClient,
    method: str,
    path: str,
    answer: type[T],
    *,
    query: Mapping[str, str] | None = None,
    body: object = None,
) -> T:
    """The answer; raises `KubeStatusError` and `KubeUnreachable`."""
    content = None if body is None else msgspec.json.encode(body)
    async with client.request(method, path, query=query, body=content) as response:
        if response.status >= HTTPStatus.BAD_REQUEST:
            raise await status_error(response)
        data: Any = await response.read()
    try:
        return msgspec.json.decode(data, type=answer)
    except (msgspec.MsgspecError, RecursionError) as error:
        text = f"the answer to {method} {path} can't be read: {error}"
        raise KubeStatusError(response.status, "Unreadable", text) from error


def remedy(error: KubeStatusError, rule: str) -> str:
    """What helps; `rule` is what a Role lacks where rights are missing."""
    if error.status == HTTPStatus.FORBIDDEN:
        return f"add to the Role: {rule}"
    return "rights are not the matter: see the API server, and what stands before it"
