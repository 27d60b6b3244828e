"""What a configuration picks by, in a line for each profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epp.config.blueprint import Blueprint
    from epp.config.scheduling import Member, Profile

MOST_PROFILES = 8
MOST_PLUGINS = 8


def profile_lines(blueprint: Blueprint) -> Sequence[str]:
    """Profiles with their plugins in order, as far as there is room."""
    profiles = blueprint.scheduling.profiles
    lines = [_line(profile) for profile in profiles[:MOST_PROFILES]]
    if len(profiles) > MOST_PROFILES:
        lines.append(f"and {len(profiles) - MOST_PROFILES} more profiles")
    return lines


def _line(profile: Profile) -> str:
    names = [_name(member) for member in profile.members[:MOST_PLUGINS]]
    if len(profile.members) > MOST_PLUGINS:
        names.append(f"and {len(profile.members) - MOST_PLUGINS} more plugins")
    return f"profile {profile.name}: {', '.join(names)}"


def _name(member: Member) -> str:
    return f"{member.instance.name}{f' x{member.weight:g}' if member.is_scorer else ''}"
