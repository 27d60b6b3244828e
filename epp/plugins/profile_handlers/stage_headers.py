"""Headers by which the decode pod's sidecar learns who computes the other stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epp.framework.headers import Headers
    from epp.framework.scheduling_results import ProfileResult

PREFILL_HEADER = "x-prefiller-host-port"
ENCODE_HEADER = "x-encoder-hosts-ports"


def write_stage_headers(
    headers: Headers, *, prefill: ProfileResult | None, encode: ProfileResult | None
) -> None:
    """Name the first prefill endpoint and all encode endpoints; what a client sent is removed."""
    if prefill is None:
        headers.remove(PREFILL_HEADER)
    else:
        headers.set(PREFILL_HEADER, prefill.endpoints[0].address)
    if encode is None:
        headers.remove(ENCODE_HEADER)
    else:
        headers.set(ENCODE_HEADER, ",".join(endpoint.address for endpoint in encode.endpoints))
