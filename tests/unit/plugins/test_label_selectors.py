"""Label selectors as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.plugins.label_selectors import label_key, label_value, parse_label_selector

LABELS = {"app": "vllm", "tier": "gpu", "example.com/canary": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("  ", True),
        ("app=vllm", True),
        ("app == vllm", True),
        ("app=sglang", False),
        ("app!=sglang", True),
        ("missing!=x", True),
        ("app", True),
        ("!app", False),
        ("! missing", True),
        ("app in (vllm, sglang)", True),
        ("app in (sglang)", False),
        ("app notin (vllm)", False),
        ("missing notin (a,b),tier=gpu", True),
        ("app in (vllm,x),tier=cpu", False),
        ("example.com/canary=", True),
    ],
)
def test_a_selector_is_read_as_kubectl_reads_it(text: str, matches: bool) -> None:
    assert parse_label_selector(text)(LABELS) is matches


@pytest.mark.parametrize(
    "text", ["a=b,", ",", "a=b=c", "a in b", "a in (b", "a b", "=x", "!", "a!=-", "-a", "a>1"]
)
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        parse_label_selector(text)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        matches = parse_label_selector(text)
    except ValueError:
        return
    assert matches(LABELS) in (True, False)


@pytest.mark.parametrize("key", ["a", "a/b", "example.com/A_b.c-d", "x" * 63, "a" * 253 + "/b"])
def test_keys_of_kubernetes_are_taken(key: str) -> None:
    assert label_key(key) == key


@pytest.mark.parametrize("key", ["", "a/", "/a", "a/b/c", "x" * 64, "a" * 254 + "/b", "a\n"])
def test_other_keys_are_refused(key: str) -> None:
    with pytest.raises(ValueError, match="is not a label key"):
        label_key(key)


@pytest.mark.parametrize("value", ["", "a", "A_b.c-9", "x" * 63])
def test_values_of_kubernetes_are_taken(value: str) -> None:
    assert label_value(value) == value
