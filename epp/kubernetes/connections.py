"""The connections that trust one certificate authority."""

from __future__ import annotations

from typing import Any

from epp.kubernetes.sockets import Sockets


class Connections:
    """Of one `ApiClient`; once retired they are closed by the last call that goes through them."""

    def __init__(self, api: Any, sockets: Sockets) -> None:
        self._api = api
        self._sockets = sockets
        self._calls = 0
        self._is_retired = False

    async def call(self, path: str, method: str, **arguments: Any) -> Any:
        """What `ApiClient.call_api` gives."""
        self._calls += 1
        try:
            return await self._api.call_api(path, method, **arguments)
        finally:
            self._calls -= 1
            if self._is_retired:
                await self.retire()

    async def retire(self) -> None:
        """Others have taken their place; calls under way go on."""
        self._is_retired = True
        if not self._calls:
            await self.close()

    async def close(self) -> None:
        """Close all of them at once."""
        try:
            await self._api.close()
        finally:
            await self._sockets.aclose()
