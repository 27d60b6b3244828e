"""The pool of a picker that runs, as its admin port tells it."""

from __future__ import annotations

from collections.abc import Iterator

import aiohttp
import msgspec

from epp.admin.pool_view import EndpointPart, PoolView
from epp.datastore.inference_pool import FailureMode, InferencePool
from epp.diagnosis.doctor_options import HostPort
from epp.diagnosis.page_reading import read_at_most
from epp.framework.endpoint import Endpoint, EndpointId
from epp.support.addresses import split_host_port

_TIMEOUT = aiohttp.ClientTimeout(total=4)
UNANSWERED = (aiohttp.ClientError, OSError, TimeoutError)
NO_PICKER = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


async def pool_page(address: HostPort) -> PoolView:
    """What it says; raises `UNANSWERED`, and `NO_PICKER` for the answer of somebody else."""
    async with (
        aiohttp.ClientSession(timeout=_TIMEOUT) as session,
        session.get(f"http://{address}/pool") as response,
    ):
        return msgspec.json.decode(await read_at_most(response), type=PoolView)


def pool_of(view: PoolView) -> InferencePool | None:
    """The pool it has, as far as an examination goes by it."""
    if view.pool is None:
        return None
    return InferencePool(
        name=view.pool.name,
        namespace=view.pool.namespace,
        match_labels=view.pool.match_labels,
        target_ports=tuple(view.pool.target_ports),
        failure_mode=next((mode for mode in FailureMode if mode == view.pool.failure_mode), None),
    )


def endpoints_of(view: PoolView) -> tuple[Endpoint, ...]:
    """The endpoints it picks from, without what they reported."""
    return tuple(endpoint for part in view.endpoints for endpoint in _endpoint(part))


def _endpoint(part: EndpointPart) -> Iterator[Endpoint]:
    address = split_host_port(part.address)
    if address is not None:
        yield Endpoint(
            id=EndpointId(f"{part.namespace}/{part.name}", address[1]),
            address=part.address,
            ip=address[0],
            port=address[1],
            name=part.name,
            namespace=part.namespace,
            pod_name=part.name,
            rank=0,
            labels=part.labels,
        )
