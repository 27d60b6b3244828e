"""How the stages of disaggregated serving are written down: in two forms, one at a time."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, field_validator, model_validator

from epp.framework.plugin import Parameters

PREFILL_FIRST = "prefill-first"
DECODE_FIRST = "decode-first"
STAGE_ORDERS = {
    "": DECODE_FIRST,
    "decode": DECODE_FIRST,
    "decodefirst": DECODE_FIRST,
    "prefill": PREFILL_FIRST,
    "prefillfirst": PREFILL_FIRST,
}
NESTED_FORM = frozenset(("profiles", "deciders"))
FLAT_FORM = frozenset(
    (
        "decode_profile",
        "prefill_profile",
        "encode_profile",
        "prefill_decider_plugin_name",
        "decider_plugin_name",
        "encode_decider_plugin_name",
    )
)


class StageProfiles(Parameters):
    """Profiles by stage."""

    decode: str = Field("", description="Profile of the decode stage; empty: `decode`.")
    prefill: str = Field("", description="Profile of the prefill stage; empty: `prefill`.")
    encode: str = Field("", description="Profile of the encode stage; empty: `encode`.")


class StageDeciders(Parameters):
    """Deciders by stage."""

    prefill: str = Field(
        "", description="Decider of the prefill stage; empty: it never runs in `decode-first`."
    )
    encode: str = Field("", description="Decider of the encode stage; empty: it never runs.")


class DisaggParameters(Parameters):
    """The stages, their profiles and their deciders."""

    stage_order: str = Field(
        DECODE_FIRST,
        description="`decode-first` or `prefill-first`; case, `-` and `_` don't matter.",
    )
    profiles: StageProfiles = Field(StageProfiles(), description="Profiles by stage.")
    deciders: StageDeciders = Field(StageDeciders(), description="Deciders by stage.")
    allow_decode_only: bool = Field(
        False,
        description="Whether decode serves alone when a stage that should run has no endpoint.",
    )
    decode_profile: str = Field("", description="Flat form of `profiles.decode`.")
    prefill_profile: str = Field("", description="Flat form of `profiles.prefill`.")
    encode_profile: str = Field("", description="Flat form of `profiles.encode`.")
    prefill_decider_plugin_name: str = Field("", description="Flat form of `deciders.prefill`.")
    decider_plugin_name: str = Field("", description="Older name of `prefillDeciderPluginName`.")
    encode_decider_plugin_name: str = Field("", description="Flat form of `deciders.encode`.")

    @field_validator("stage_order")
    @classmethod
    def _known_order(cls, value: str) -> str:
        order = STAGE_ORDERS.get(value.lower().replace("-", "").replace("_", ""))
        if order is None:
            raise ValueError(f"must be {DECODE_FIRST} or {PREFILL_FIRST}, got {value!r}")
        return order

    @model_validator(mode="after")
    def _one_form(self) -> DisaggParameters:
        nested, flat = self._given(NESTED_FORM), self._given(FLAT_FORM)
        if nested and flat:
            raise ValueError(
                f"the nested form ({nested}) and the flat form ({flat}) can't be used together"
            )
        if self.stage_order == PREFILL_FIRST and self.prefill_decider:
            raise ValueError(
                f"{self.prefill_decider_field}: {self.prefill_decider!r} can't be used with"
                f" stageOrder {PREFILL_FIRST}, in which prefill always runs"
            )
        return self

    def _given(self, names: frozenset[str]) -> str:
        fields = type(self).model_fields
        given = (name for name in fields if name in names & self.model_fields_set)
        return ", ".join(fields[name].alias or name for name in given)

    @property
    def decode(self) -> str:
        """Profile of the decode stage, whichever form names it."""
        return self.profiles.decode or self.decode_profile or "decode"

    @property
    def prefill(self) -> str:
        """Profile of the prefill stage, whichever form names it."""
        return self.profiles.prefill or self.prefill_profile or "prefill"

    @property
    def encode(self) -> str:
        """Profile of the encode stage, whichever form names it."""
        return self.profiles.encode or self.encode_profile or "encode"

    @property
    def profile_fields(self) -> Mapping[str, str]:
        """By stage, the parameter that names its profile."""
        if self._given(FLAT_FORM):
            return {stage: f"{stage}Profile" for stage in StageProfiles.model_fields}
        return {stage: f"profiles.{stage}" for stage in StageProfiles.model_fields}

    @property
    def prefill_decider(self) -> str:
        """Decider of the prefill stage, whichever form names it; empty: none."""
        flat = self.prefill_decider_plugin_name or self.decider_plugin_name
        return self.deciders.prefill or flat

    @property
    def encode_decider(self) -> str:
        """Decider of the encode stage, whichever form names it; empty: none."""
        return self.deciders.encode or self.encode_decider_plugin_name

    @property
    def prefill_decider_field(self) -> str:
        """The parameter that names the decider of the prefill stage."""
        if self.prefill_decider_plugin_name:
            return "prefillDeciderPluginName"
        return "deciderPluginName" if self.decider_plugin_name else "deciders.prefill"

    @property
    def encode_decider_field(self) -> str:
        """The parameter that names the decider of the encode stage."""
        return "encodeDeciderPluginName" if self.encode_decider_plugin_name else "deciders.encode"
