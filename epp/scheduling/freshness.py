"""Endpoints whose data can't be believed are passed over while there are others (decision 20)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint


def fresh_among(candidates: Sequence[Endpoint]) -> Sequence[Endpoint]:
    """`candidates` without the stale ones; all of them when none is fresh."""
    for endpoint in candidates:
        if endpoint.state.is_stale:
            break
    else:
        return candidates
    return [endpoint for endpoint in candidates if not endpoint.state.is_stale] or candidates
