"""What the operator says about decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epp.datastore.inference_pool import FailureMode
    from epp.observability.log_level import LogLevelSwitch


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorSettings:
    """Limits of a decision. Times in seconds, sizes in bytes."""

    failure_mode: FailureMode | None = None
    """Wins over the pool's when given (decision 4)."""
    decision_timeout: float = 5.0
    max_request_body_bytes: int = 64 << 20
    use_subset: bool = True
    emit_endpoint_scores: bool = False
    """Whether the gateway is told the totals of all candidates."""
    log_level: LogLevelSwitch | None = None
    """At debug level every decision is a line in the log; None: never."""
