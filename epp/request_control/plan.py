"""Everything a configuration says about requests, swapped as a whole when it changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epp.framework.data import Input
    from epp.framework.data_types import PrefixMatch
    from epp.framework.flow_control import SaturationDetector
    from epp.framework.scheduling import Scheduler
    from epp.request_control.parsing import ParserSelector
    from epp.request_control.request_hooks import HookRunner


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPlan:
    """What a request meets on its way; it keeps the one it started with."""

    parsers: ParserSelector
    hooks: HookRunner
    scheduler: Scheduler
    saturation_detector: SaturationDetector | None = None
    """Asked for requests of negative priority; None: they are never shed."""
    prefix_match: Input[PrefixMatch] | None = None
    """Read for `Prefer: if-available`."""
    agent_identity: Input[str] | None = None
    """Fairness id of requests whose headers name none."""
