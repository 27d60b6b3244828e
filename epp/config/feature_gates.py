"""The feature gates of a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from epp.config.findings import Findings, unknown_name
from epp.datastore.manifest_errors import not_allowed

FLOW_CONTROL = "flowControl"
DEFAULTS: Mapping[str, bool] = {FLOW_CONTROL: False, "haPopulateNonLeaderDatastore": True}

_VALUES = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}


def read_feature_gates(entries: Sequence[str], findings: Findings) -> dict[str, bool]:
    """Every gate with its value; of several entries for one gate the last one counts."""
    gates = dict(DEFAULTS)
    for index, entry in enumerate(entries):
        path = f"featureGates[{index}]"
        name, has_value, text = entry.partition("=")
        value = _VALUES.get(text.strip().lower()) if has_value else True
        if name not in DEFAULTS:
            findings.problem(path, unknown_name(name, "feature gate", DEFAULTS))
        elif value is None:
            findings.problem(path, not_allowed("", entry, f"{name}=true or {name}=false"))
        else:
            gates[name] = value
    if gates[FLOW_CONTROL]:
        findings.problem(
            "featureGates",
            f"{FLOW_CONTROL} is not available in this version; switch it off or leave it out",
        )
    return gates
