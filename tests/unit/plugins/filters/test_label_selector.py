"""Endpoints by label selector, by one label and by role."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from epp.framework.plugin import Stability
from epp.framework.scheduling import Filter
from epp.plugins.filters.by_label import ByLabelFilter
from epp.plugins.filters.label_selector import ByLabelSelectorFilter, LabelSelectorFilter
from epp.plugins.filters.role import DecodeFilter, EncodeFilter, PrefillFilter
from epp.testing import built, endpoint_of, request_of

DECODE = endpoint_of("e1", labels={"role": "decode", "gpu": "h100"})
PREFILL = endpoint_of("e2", labels={"role": "prefill", "gpu": ""})
BARE = endpoint_of("e3")
ALL = [DECODE, PREFILL, BARE]


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("selector", "kept"),
    [
        ({}, ALL),
        ({"match_labels": {"role": "decode"}}, [DECODE]),
        ({"match_labels": {"role": "decode", "gpu": "a100"}}, []),
        ({"match_labels": {"gpu": ""}}, [PREFILL]),
        ({"match_expressions": [expression("role", "In", "decode", "prefill")]}, ALL[:2]),
        ({"match_expressions": [expression("role", "NotIn", "decode")]}, ALL[1:]),
        ({"match_expressions": [expression("gpu", "Exists")]}, ALL[:2]),
        ({"match_expressions": [expression("gpu", "DoesNotExist")]}, [BARE]),
        (
            {
                "match_labels": {"role": "prefill"},
                "match_expressions": [expression("gpu", "In", "h100")],
            },
            [],
        ),
    ],
    ids=["empty", "label", "all labels", "no value", "In", "NotIn", "Exists", "Not", "both"],
)
@pytest.mark.parametrize("kind", [LabelSelectorFilter, ByLabelSelectorFilter])
def test_a_selector_keeps_what_kubernetes_would_select(
    kind: type[LabelSelectorFilter], selector: dict[str, Any], kept: list[Any]
) -> None:
    made = built(kind, **selector)

    assert made.filter(request_of(), ALL) == kept


@pytest.mark.parametrize(
    ("selector", "complaint"),
    [
        ({"match_labels": {"a b": "x"}}, "'a b' is not a label key"),
        ({"match_labels": {"/x": "x"}}, "'/x' is not a label key"),
        ({"match_labels": {"Upper.example/x": "x"}}, "is not a label key"),
        ({"match_labels": {"a": "-x"}}, "'-x' is not a label value"),
        ({"match_labels": {"a": "x" * 64}}, "is not a label value"),
        ({"match_expressions": [expression("a", "In")]}, "In needs at least one"),
        ({"match_expressions": [expression("a", "Exists", "x")]}, "Exists takes none"),
        ({"match_expressions": [expression("a", "Equals", "x")]}, "'DoesNotExist'"),
    ],
)
def test_a_selector_that_kubernetes_refuses_is_refused(
    selector: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValidationError, match=complaint):
        built(LabelSelectorFilter, **selector)


@pytest.mark.parametrize(
    ("parameters", "kept"),
    [
        ({"valid_values": ["decode"]}, [DECODE]),
        ({"valid_values": ["decode"], "allows_no_label": True}, [DECODE, BARE]),
        ({"allows_no_label": True}, [BARE]),
        ({"valid_values": ["other"]}, []),
    ],
)
def test_by_label_keeps_listed_values(parameters: dict[str, Any], kept: list[Any]) -> None:
    made = built(ByLabelFilter, label="role", **parameters)

    assert made.filter(request_of(), ALL) == kept


def test_by_label_needs_something_to_keep() -> None:
    with pytest.raises(ValidationError, match="validValues needs a value"):
        built(ByLabelFilter, label="role")


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        (DecodeFilter, {"decode", "prefill-decode", "both", "encode-prefill-decode", None}),
        (
            PrefillFilter,
            {"prefill", "encode-prefill", "prefill-decode", "both", "encode-prefill-decode"},
        ),
        (EncodeFilter, {"encode", "encode-prefill", "encode-prefill-decode"}),
    ],
)
def test_a_role_filter_keeps_every_role_that_includes_its_stage(
    kind: type[Filter], kept: set[str | None]
) -> None:
    roles = [
        "encode",
        "prefill",
        "decode",
        "encode-prefill",
        "prefill-decode",
        "encode-prefill-decode",
        "both",
        "",
        "training",
        None,
    ]
    endpoints = [
        endpoint_of(f"e{number}", labels={} if role is None else {"llm-d.ai/role": role})
        for number, role in enumerate(roles, 1)
    ]

    found = built(kind).filter(request_of(), endpoints)

    assert {endpoint.labels.get("llm-d.ai/role") for endpoint in found} == kept


@pytest.mark.parametrize("kind", [ByLabelFilter, ByLabelSelectorFilter])
def test_deprecated_filters_name_their_replacement(kind: type[Filter]) -> None:
    assert kind.stability is Stability.DEPRECATED
    assert kind.replaced_by == LabelSelectorFilter.type
