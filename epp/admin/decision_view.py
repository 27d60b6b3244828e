"""The JSON of the pages about decisions: what they are made of, in the order they are read in.

`GET /decisions?limit=50` is a `DecisionList`; `GET /decisions/{request id}` a list of
`DecisionPart`, since ids may come again, the newest first; `POST /decisions/dry-run`, with a
`DryRun`, is one of them; whatever has a status from 400 on is a `Problem`. Names are camelCase.
Fields may be added: who reads this lets those pass that it does not know.

    {"requestId": "abc", "path": "/v1/completions", "model": "m", "targetModel": "m",
     "decidedAt": "2026-01-31T12:00:00.123Z", "seconds": 0.0004, "outcome": "picked",
     "endpoints": ["10.0.0.1:8000"], "reason": "best of 2 endpoints: 2.00 = queue 1.00x2",
     "fairnessId": "default-flow", "priority": 0, "isDryRun": false, "rejection": null,
     "poolSize": 3,
     "leftOut": [{"by": "staleness", "plugin": "", "count": 1, "endpoints": ["10.0.0.3:8000"]}],
     "profiles": [
       {"name": "default", "isPrimary": true, "role": "", "picked": ["10.0.0.1:8000"],
        "reason": "best of …", "candidates": 2,
        "filters": [{"plugin": "f", "before": 2, "after": 2, "removed": []}],
        "scorers": [{"plugin": "queue-scorer", "weight": 2.0, "isKept": false}],
        "endpoints": [{"address": "10.0.0.1:8000", "total": 2.0, "scores": [1.0],
                       "weighted": [2.0], "picked": 1, "prefix": null,
                       "load": {"waiting": 0, "running": 3, "kvCacheUsage": 0.4,
                                "ageSeconds": 0.03}}, …],
        "notShown": 0}],
     "phases": [{"name": "body", "seconds": 0.001}, …],
     "steps": [{"extensionPoint": "Scorer", "plugin": "queue-scorer", "profile": "default",
                "seconds": 0.00001, "failed": false}, …]}
"""

from __future__ import annotations

from typing import Literal

import msgspec

Outcome = Literal["picked", "fail-open", "rejected"]


class Summary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A decision in a line."""

    request_id: str
    path: str
    model: str
    target_model: str
    """After a rewrite."""
    decided_at: str
    """RFC 3339, UTC."""
    seconds: float | None
    """From the last byte of the body to the decision; None: nothing was looked at."""
    outcome: Outcome
    """`fail-open`: a fault of ours was answered with the simplest pick."""
    endpoints: list[str]
    """What the gateway is told, best first; none if it is rejected."""
    reason: str
    """In one line, as in the request log."""


class Rejected(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The error that the client gets."""

    status: int
    code: str
    details: str
    """As in the gateway's access log."""
    message: str
    """The client's in a dry run; else without what it quotes of the request."""


class LeftOutPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Endpoints of the pool that were no candidates, for one reason."""

    by: str
    """`subset`, `ejection`, `screener`, `staleness`."""
    plugin: str = ""
    """Of screeners."""
    count: int
    endpoints: list[str]
    """At most 64."""


class FilterPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What one filter of a profile took out."""

    plugin: str
    before: int
    after: int
    removed: list[str]
    """At most 64."""


class ScorerPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A scorer that was heard; one that failed is missing, its score counts as 0."""

    plugin: str
    weight: float
    is_kept: bool = False
    """Whether its scores are those of an earlier request, since no model server it looks at has
    reported anew: it was not called, and is not among the steps."""


class LoadPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a model server had reported when it was scored."""

    waiting: int
    running: int
    kv_cache_usage: float
    """Share of the KV cache in use, 0 to 1."""
    age_seconds: float
    """Of these three."""


class PrefixPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How much of the prompt an endpoint is believed to hold, in blocks of the KV cache."""

    matched_blocks: int
    prompt_blocks: int
    block_tokens: int


class CandidatePart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An endpoint that the filters left."""

    address: str
    total: float
    scores: list[float]
    """From 0 to 1, in the order of the profile's scorers."""
    weighted: list[float]
    """The same times the weights: what the total is made of."""
    picked: int | None
    """1 for the choice, 2 and so on for its fallbacks; None: not picked."""
    load: LoadPart | None = None
    """None: it had never been heard of, or is not kept, as of more than 64 candidates; a dry run
    tells it of all."""
    prefix: PrefixPart | None = None
    """Of dry runs, if something tells it; of others the score of `prefix-cache-scorer` is left."""


class ProfilePart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How one scheduling profile came to its endpoints."""

    name: str
    is_primary: bool
    """Whether its endpoints are those the gateway is told."""
    role: str
    """`prefill`, `decode` or `encode`, where requests are served in stages."""
    picked: list[str]
    """None: its filters left nobody."""
    reason: str
    candidates: int
    """How many the filters left."""
    filters: list[FilterPart]
    scorers: list[ScorerPart]
    endpoints: list[CandidatePart]
    """By falling total, at most 64 and those that were picked."""
    not_shown: int
    """Candidates beyond these."""


class PhasePart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of the time: `body` until it was there, `preparation` from parsing to data
    producers, `scheduling` all profiles and what acts on the decision. The last one that a
    rejected request came to lasts until its rejection."""

    name: Literal["body", "preparation", "scheduling"]
    seconds: float


class StepPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One call of a plugin."""

    extension_point: str
    """As in the label of `llm_d_epp_plugin_duration_seconds`."""
    plugin: str
    profile: str
    """Of filters, scorers and pickers."""
    seconds: float
    failed: bool


class DecisionPart(Summary, frozen=True, kw_only=True, rename="camel"):
    """All that is known of a decision."""

    fairness_id: str
    priority: int
    is_dry_run: bool
    rejection: Rejected | None
    pool_size: int | None
    """Endpoints of the pool at that moment; None: they were not looked at."""
    left_out: list[LeftOutPart]
    profiles: list[ProfilePart]
    """The primary one first; those that picked nothing last."""
    phases: list[PhasePart]
    steps: list[StepPart]
    """In calling order, up to the decision or the rejection."""


class DecisionList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The last decisions."""

    size: int
    """How many are kept at most (`--decision-log-size`), beside up to 64 of requests that were
    turned away unread."""
    kept: int
    decisions: list[Summary]
    """The newest first."""


class Problem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What every answer with a status from 400 on has."""

    error: str
