"""How an option says which flag sets it: type, default, help and standing in one declaration.

    grpc_port: Annotated[Port, Flag(Section.LISTENERS, "port of the ext_proc service")] = 9002

The type decides how the flag's text is read. Parser and reference page are made from these.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from typing import Any, get_type_hints

from epp.app.flag_kinds import BOOLEAN, Kind, kind_of


class Section(StrEnum):
    """Headings under which flags are explained."""

    POOL = "Pool and choice of endpoints"
    PICKING = "Plugins and scraping"
    KUBERNETES = "Kubernetes"
    LISTENERS = "Listeners"
    TLS = "TLS of the ext_proc and metrics ports"
    LIMITS = "Deadlines and limits"
    SHUTDOWN = "Shutdown"
    ANSWERS = "What gateway and client are told"
    OBSERVABILITY = "Logs, metrics and traces"
    DIAGNOSIS = "What to examine, and how to tell"
    ELSEWHERE = "Flags of other Endpoint Pickers without a counterpart"


class Standing(StrEnum):
    """What becomes of a flag that is given."""

    WORKS = "works"
    NO_EFFECT = "accepted without effect"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Flag:
    """The command line's view of one option."""

    section: Section
    help: str
    name: str = ""
    """Empty: the option's name with dashes."""
    environment: str = ""
    """Variable that stands in for the flag when that isn't given, or is given empty."""
    standing: Standing = Standing.WORKS
    reason: str = ""
    """Why a flag doesn't work, and what to do about it."""
    harmless: tuple[object, ...] = ()
    """Values nothing is said about, since the process does what they ask for; nor are values
    that ask for nothing: empty and false."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One option with its flag, as declared on a dataclass of options."""

    option: str
    name: str
    flag: Flag
    kind: Kind
    default: Any

    @property
    def spelling(self) -> str:
        """The flag as people write it."""
        return f"-{self.name}" if len(self.name) == 1 else f"--{self.name}"

    @property
    def is_switch(self) -> bool:
        """Given without a value, it means true."""
        return self.kind is BOOLEAN


def declarations_of(options: type) -> tuple[Declaration, ...]:
    """Return what a dataclass declares with `Annotated[..., Flag(...)]`, in its order."""
    hints = get_type_hints(options, include_extras=True)
    return tuple(
        Declaration(
            option=field.name,
            name=flag.name or field.name.replace("_", "-"),
            flag=flag,
            kind=kind_of(hints[field.name]),
            default=None if field.default is MISSING else field.default,
        )
        for field in fields(options)
        for flag in getattr(hints[field.name], "__metadata__", ())
        if isinstance(flag, Flag)
    )
