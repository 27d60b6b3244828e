"""What is configured of the screener for rollouts (scheduling §13)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from epp.framework.plugin import Parameters
from epp.plugins.header_names import SettableHeaderName
from epp.plugins.label_selectors import LabelKey, parse_label_selector


def _readable_selector(text: str) -> str:
    parse_label_selector(text)
    return text


class RolloutScope(Parameters):
    """Which pods belong to the set."""

    label_selector: Annotated[str, AfterValidator(_readable_selector)] = Field(
        min_length=1, description="Selector of the pods that count, as for kubectl."
    )


class RolloutHeaderSelector(Parameters):
    """A header that stands for a label."""

    name: str = Field(min_length=1, description="Name of the selector in metrics.")
    header_name: SettableHeaderName = Field(
        min_length=1, description="Header of requests, and of responses, with the label's value."
    )
    label_key: LabelKey = Field(description="Label of pods the header stands for.")
    mode: Literal["strict", "prefer"] = Field(
        description="Whether other endpoints are dropped, or the response's header is set only."
    )


class RequiredRoles(Parameters):
    """What makes a revision complete."""

    values: list[Annotated[str, Field(min_length=1)]] = Field(
        [], description="Roles a revision needs a ready pod of; required unless mode is disabled."
    )


class RevisionGating(Parameters):
    """How one revision is chosen for a request."""

    mode: Literal["sum", "max-role", "disabled"] = Field(
        description="What shares are proportional to: pods of all roles or of the largest one."
    )
    revision_label_key: LabelKey = Field(
        "disaggregatedset.x-k8s.io/revision", description="Label with the revision."
    )
    role_label_key: LabelKey = Field(
        "disaggregatedset.x-k8s.io/role", description="Label with the role."
    )
    require_roles: RequiredRoles = Field(
        RequiredRoles(), description="Roles that make a revision complete."
    )

    @model_validator(mode="after")
    def _check_roles(self) -> RevisionGating:
        if self.mode != "disabled" and not self.require_roles.values:
            raise ValueError(f"requireRoles.values needs a role when mode is {self.mode}")
        return self


class RolloutScreenerParameters(Parameters):
    """Scope, selectors and choice of the revision."""

    scope: RolloutScope = Field(description="Which pods belong to the set.")
    header_selectors: list[RolloutHeaderSelector] = Field(
        [], description="Headers that stand for labels."
    )
    revision_gating: RevisionGating = Field(description="How a revision is chosen.")

    @model_validator(mode="after")
    def _check_names(self) -> RolloutScreenerParameters:
        names = [selector.name for selector in self.header_selectors]
        if len(set(names)) != len(names):
            raise ValueError("headerSelectors: every name must be another one")
        return self
