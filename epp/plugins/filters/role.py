"""Endpoints by their role in disaggregated serving, label `llm-d.ai/role`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from epp.framework.plugin import Stability
from epp.framework.scheduling import Filter

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest

ROLE_LABEL = "llm-d.ai/role"


class _RoleFilter(Filter):
    stability = Stability.BETA
    ignores_parameters = True
    roles: ClassVar[frozenset[str | None]]
    """Values of the label that are kept; None: there is no label."""

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """The endpoints that have one of the roles."""
        roles = self.roles
        return [endpoint for endpoint in endpoints if endpoint.labels.get(ROLE_LABEL) in roles]


class DecodeFilter(_RoleFilter):
    """Keeps endpoints that decode, those without a role among them.

    The role is the label `llm-d.ai/role` of the pod (or of the entry in a pool file); kept are
    `decode`, `prefill-decode`, `encode-prefill-decode`, `both`, and endpoints without the label.
    """

    type = "decode-filter"
    roles = frozenset({"decode", "prefill-decode", "both", "encode-prefill-decode", None})


class PrefillFilter(_RoleFilter):
    """Keeps endpoints that prefill.

    The role is the label `llm-d.ai/role` of the pod (or of the entry in a pool file); kept are
    `prefill`, `encode-prefill`, `prefill-decode`, `encode-prefill-decode` and `both`.
    """

    type = "prefill-filter"
    roles = frozenset(
        {"prefill", "encode-prefill", "prefill-decode", "both", "encode-prefill-decode"}
    )


class EncodeFilter(_RoleFilter):
    """Keeps endpoints that encode.

    The role is the label `llm-d.ai/role` of the pod (or of the entry in a pool file); kept are
    `encode`, `encode-prefill` and `encode-prefill-decode`.
    """

    type = "encode-filter"
    roles = frozenset({"encode", "encode-prefill", "encode-prefill-decode"})
