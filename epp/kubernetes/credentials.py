"""Where the API server is and how to be let in: a pod's service account, or a kubeconfig."""

from __future__ import annotations

import asyncio
import importlib
import os
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from epp.framework.errors import ConfigError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_READ_TOKEN_AGAIN_AFTER_SECONDS = 60.0
_PLUGIN_TIMEOUT_SECONDS = 30.0
_BEARER = "BearerToken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What an `ApiClient` is built from."""

    configuration: Any
    """A `kubernetes_asyncio.client.Configuration`."""
    renew: Callable[[], Awaitable[None]]
    """Take them anew from where they came, since the API server did not accept them.

    Raises `ConfigError` when they can't be had.
    """

    def read_authority(self) -> bytes:
        """The certificates that the API server's must be signed by; empty: the system's."""
        path = self.configuration.ssl_ca_cert
        try:
            return Path(path).read_bytes() if path else b""
        except OSError as error:
            raise ConfigError(f"certificate authority of the API server: {error}") from error


async def find_credentials(
    kubeconfig: Path | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
    plugin_timeout: float = _PLUGIN_TIMEOUT_SECONDS,
) -> Credentials:
    """Those of the kubeconfig that was given, else of the pod, else of ~/.kube/config.

    Raises `ConfigError` when there are none, or when they can't be read.
    """
    if given := str(kubeconfig or environ.get("KUBECONFIG", "")):
        return await _from_kubeconfig(given, context, plugin_timeout)
    if environ.get("KUBERNETES_SERVICE_HOST") and (service_account / "token").is_file():
        return await _in_cluster(environ, service_account)
    default = f"{environ.get('HOME', '')}/.kube/config"
    if _is_file(default):
        return await _from_kubeconfig(default, context, plugin_timeout)
    raise ConfigError(
        "no Kubernetes API server is known: this is not a pod with a service account, and there is "
        "no kubeconfig; name one by --kubeconfig or KUBECONFIG, or put it at ~/.kube/config"
    )


async def _in_cluster(environ: Mapping[str, str], service_account: Path) -> Credentials:
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ.get("KUBERNETES_SERVICE_PORT", "443")
    authority = service_account / "ca.crt"
    if not authority.is_file():
        raise ConfigError(f"service account: {authority} is missing")
    configuration = _configuration()
    configuration.host = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    configuration.ssl_ca_cert = str(authority)
    token = _TokenFile(service_account / "token")
    await token.read()

    async def put_current(_configuration: Any) -> None:
        await token.refresh()
        configuration.api_key[_BEARER] = f"Bearer {token.text}"

    configuration.api_key[_BEARER] = f"Bearer {token.text}"
    configuration.refresh_api_key_hook = put_current
    return Credentials(configuration=configuration, renew=token.read)


class _TokenFile:
    """A token that is rotated in place; the last one counts as long as there is no other."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_at = 0.0
        self.text = ""

    async def refresh(self) -> None:
        """Read it when the last time is long ago."""
        if time.monotonic() - self._read_at > _READ_TOKEN_AGAIN_AFTER_SECONDS:
            try:
                await self.read()
            except ConfigError:
                self._read_at = time.monotonic()

    async def read(self) -> None:
        """Read it now; raises `ConfigError` when there is none."""
        try:
            text = await asyncio.to_thread(self._path.read_text, "utf-8")
        except (OSError, UnicodeError) as error:
            raise ConfigError(f"service account: {error}") from error
        self._read_at = time.monotonic()
        if not text.strip():
            raise ConfigError(f"service account: {self._path} is empty")
        self.text = text.strip()


async def _from_kubeconfig(paths: str, context: str | None, plugin_timeout: float) -> Credentials:
    if not any(map(_is_file, paths.split(os.pathsep))):
        raise ConfigError(f"kubeconfig {paths}: there is no such file, or it is none")
    configuration = _configuration()
    config = importlib.import_module("kubernetes_asyncio.config")

    async def load() -> None:
        try:
            # A plugin that hangs, for want of a user to ask, would keep all requests waiting.
            async with asyncio.timeout(plugin_timeout):
                await config.load_kube_config(paths, context, client_configuration=configuration)
        except TimeoutError as error:
            raise ConfigError(
                f"kubeconfig {paths}: no credentials within {plugin_timeout:g} s"
            ) from error
        except (config.ConfigException, yaml.YAMLError, OSError) as error:
            raise ConfigError(f"kubeconfig {paths}: {error}") from error
        except _WRONG_SHAPE as error:
            what = str(error) or type(error).__name__
            raise ConfigError(
                f"kubeconfig {paths}: not a usable kubeconfig, which has clusters, users, contexts"
                f" and current-context: {what}"
            ) from error

    await load()
    return Credentials(configuration=configuration, renew=load)


# What the loader raises for a file that is no kubeconfig.
_WRONG_SHAPE = (AssertionError, AttributeError, LookupError, TypeError, ValueError)


def _is_file(path: str) -> bool:
    return Path(path).expanduser().is_file()


def _configuration() -> Any:
    # Imported when it is needed: half a second that a pool without Kubernetes need not wait.
    return importlib.import_module("kubernetes_asyncio.client").Configuration()


def api_client(
    credentials: Credentials,
    user_agent: str,
    make_socket: Callable[[tuple[Any, ...]], socket.socket],
) -> Any:
    """The `ApiClient` that reaches the API server; raises `ConfigError` for unusable certificates.

    Must be called while the event loop runs.
    """
    module = importlib.import_module("kubernetes_asyncio.client")
    try:
        client = module.ApiClient(credentials.configuration)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"certificates towards the API server: {error}") from error
    client.user_agent = user_agent
    # aiohttp's `socket_factory`, which an `ApiClient` has no parameter for.
    client.rest_client.pool_manager.connector._socket_factory = make_socket
    return client
