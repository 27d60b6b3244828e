"""A look at an InferencePool and its pods, without following them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from epp.datastore.datastore import Datastore
from epp.datastore.inference_pool import parse_inference_pool
from epp.framework.errors import ConfigError
from epp.kubernetes import objects
from epp.kubernetes.answers import KubeStatusError, status_error
from epp.kubernetes.client import KubeClient
from epp.kubernetes.envelopes import UNREADABLE, decode_list
from epp.kubernetes.pool_source import equality_selector
from epp.kubernetes.resource import Resource, T


async def read_pool(
    client: KubeClient, *, pool_name: str, namespace: str, datastore: Datastore
) -> None:
    """Bring pool and pods into the datastore.

    Raises `ConfigError` for a pool that can't be served, and `KubeUnreachable` and
    `KubeStatusError` for what can't be asked.
    """
    document = await pool_document(client, pool_name, namespace)
    pool = parse_inference_pool(document, default_namespace=namespace)
    selector = equality_selector(pool.match_labels)
    pods = await list_objects(client, objects.pods(namespace, selector))
    with datastore.batch():
        datastore.set_pool(pool)
        datastore.set_pods(pods)
        datastore.mark_synced()


async def pool_document(client: KubeClient, pool_name: str, namespace: str) -> dict[str, Any]:
    """The InferencePool as it stands at the API server; raises what `read_pool` does."""
    name = f"InferencePool {namespace}/{pool_name}"
    try:
        found = await list_objects(client, objects.inference_pools(namespace, pool_name))
    except KubeStatusError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        raise ConfigError(
            f"{name} can't exist: the cluster has no CustomResourceDefinition of it"
        ) from error
    if not found:
        raise ConfigError(f"{name} does not exist")
    if found[0].is_terminating:
        raise ConfigError(f"{name} is being deleted")
    return found[0].document


async def list_objects(client: KubeClient, resource: Resource[T], *, most: int = 0) -> list[T]:
    """The objects there are, the first `most` if that is not 0.

    Raises `KubeUnreachable` and `KubeStatusError`.
    """
    query = {**resource.selection, **({"limit": str(most)} if most else {})}
    async with client.request("GET", resource.path, query=query) as response:
        if response.status != HTTPStatus.OK:
            raise await status_error(response)
        content = await response.read()
    try:
        items = decode_list(content).items or []
        return [resource.decode(item).value for item in items]
    except UNREADABLE as error:
        raise KubeStatusError(
            HTTPStatus.OK, "Unreadable", f"the answer is no list of {resource.name}: {error}"
        ) from error
