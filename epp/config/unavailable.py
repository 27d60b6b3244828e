"""Types of the reference that are not built; named, so that an existing document is told so."""

from __future__ import annotations

UNAVAILABLE = frozenset(
    {
        "edf-ordering-policy",
        "fcfs-ordering-policy",
        "global-strict-fairness-policy",
        "multicluster-file-discovery",
        "precise-prefix-cache-producer",
        "precise-prefix-cache-scorer",
        "predicted-latency-producer",
        "priority-holdback-policy",
        "priority-then-time-eviction-order-policy",
        "program-aware-fairness",
        "round-robin-fairness-policy",
        "sheddable-eviction-filter",
        "slo-deadline-ordering-policy",
        "soft-reflective-ceiling-policy",
        "static-usage-limit-policy",
        "vertexai-parser",
        "vllmgrpc-parser",
    }
)


def not_available(plugin_type: str) -> str:
    """What is wrong with a document that asks for one of these types."""
    return f"plugin type {plugin_type!r} is not available in this version"


def how_to_have(plugin_type: str) -> str:
    """What to do where a plugin of this type is needed; nothing for no type."""
    if plugin_type in UNAVAILABLE:
        return f"; {plugin_type} is not available in this version"
    return f"; list {plugin_type} in `plugins`" if plugin_type else ""
