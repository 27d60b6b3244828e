"""The way to an API server at a URL, for whoever has its token, if it wants any."""

from __future__ import annotations

from kubernetes_asyncio.client import Configuration

from epp.kubernetes.client import KubeClient
from epp.kubernetes.credentials import Credentials


def plain_credentials(server: str, token: str | None = None) -> Credentials:
    configuration = Configuration()
    configuration.host = server
    if token is not None:
        configuration.api_key["BearerToken"] = f"Bearer {token}"

    async def renew() -> None:
        """There is no other token."""

    return Credentials(configuration=configuration, renew=renew)


def plain_client(server: str, token: str | None = None) -> KubeClient:
    """To be made while the event loop runs."""
    return KubeClient(plain_credentials(server, token))
