"""Endings of request paths, compared segment by segment (protocol §5.1)."""

from __future__ import annotations


def trimmed_path(path: str) -> str:
    """`path` without blanks around it and slashes at its end."""
    return path.strip().rstrip("/")


def has_path_suffix(path: str, suffix: str) -> bool:
    """Whether a trimmed `path` is `suffix` or ends with it after a slash."""
    return path.endswith(suffix) and (len(path) == len(suffix) or path[-len(suffix) - 1] == "/")
