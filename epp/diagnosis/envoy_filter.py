"""The ext_proc settings that a request of the pool meets: the filter, and its route's override."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from epp.diagnosis.envoy_dump import EnvoyDump, Part, inner, items, seconds

FULL_DUPLEX = "FULL_DUPLEX_STREAMED"
_OVERRIDDEN = ("grpc_service", "processing_mode", "failure_mode_allow")
_DEFAULT_TIMEOUT = 0.2


@dataclass(frozen=True, slots=True)
class ExtProcSettings:
    """One filter as it is in force."""

    config: Part

    @property
    def cluster(self) -> str:
        """The cluster of the pickers."""
        return str(inner(self.config, "grpc_service", "envoy_grpc", "cluster_name") or "")

    @property
    def request_body(self) -> str:
        """How the picker sees request bodies."""
        return self._mode("request_body_mode", "NONE")

    @property
    def response_body(self) -> str:
        """How the picker sees response bodies."""
        return self._mode("response_body_mode", "NONE")

    @property
    def is_full_duplex(self) -> bool:
        """Whether request bodies go to the picker and come back from it."""
        return self.request_body == FULL_DUPLEX

    @property
    def allows_failure(self) -> bool:
        """Whether requests go on without a picker."""
        return self.config.get("failure_mode_allow") is True

    @property
    def message_timeout(self) -> float:
        """Seconds that a message may be unanswered where the gateway counts them."""
        return seconds(self.config.get("message_timeout"), _DEFAULT_TIMEOUT)

    def shows(self, phase: str, *, by_default: bool) -> bool:
        """Whether headers or trailers of a phase are sent: `request_header` and so on."""
        mode = self._mode(f"{phase}_mode", "DEFAULT")
        return by_default if mode == "DEFAULT" else mode == "SEND"

    def namespaces(self, direction: str) -> list[str]:
        """Namespaces of metadata that are let in (`receiving`) or out (`forwarding`)."""
        return [
            str(name)
            for kind in ("untyped", "typed")
            for name in items(self.config, "metadata_options", f"{direction}_namespaces", kind)
        ]

    def _mode(self, name: str, default: str) -> str:
        return str(inner(self.config, "processing_mode", name) or default)


def settings_for(dump: EnvoyDump, picker: str) -> list[ExtProcSettings]:
    """Those of the cluster that leads to the Service `picker`, or all if none seems to."""
    found: list[ExtProcSettings] = []
    for base in dump.filters:
        variants = [base]
        for override in dump.overrides:
            changed = {name: override[name] for name in _OVERRIDDEN if name in override}
            variants.append({**base, **changed})
        found += [ExtProcSettings(config) for config in variants]
    unique = [each for number, each in enumerate(found) if each not in found[:number]]
    known = [each for each in unique if each.cluster in dump.clusters] or unique
    own = [each for each in known if picker and picker in _text(dump, each.cluster)]
    return own or known


def _text(dump: EnvoyDump, cluster: str) -> str:
    return f"{cluster} {dump.clusters.get(cluster, {})}"


def clusters_of(dump: EnvoyDump, settings: Sequence[ExtProcSettings]) -> list[Part]:
    """The clusters that lead to pickers."""
    names = dict.fromkeys(each.cluster for each in settings)
    return [dump.clusters[name] for name in names if name in dump.clusters]
