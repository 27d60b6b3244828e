from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.discovery.yaml_documents import load_documents
from epp.framework.errors import ConfigError


def bomb() -> str:
    lines = ["a0: &a0 [" + ",".join("x" * 10) + "]"]
    lines += [
        f"a{level}: &a{level} [" + ",".join([f"*a{level - 1}"] * 10) + "]" for level in range(1, 9)
    ]
    return "\n".join(lines)


def test_empty_documents_do_not_count() -> None:
    assert load_documents("---\n---\na: 1\n---\n# nothing\n---\n- b\n") == [{"a": 1}, ["b"]]


def test_anchors_and_merge_keys_work() -> None:
    text = "base: &b {x: 1, y: 2}\nmore: {<<: *b, y: 3}"

    assert load_documents(text) == [{"base": {"x": 1, "y": 2}, "more": {"x": 1, "y": 3}}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb:\n  c: 1\n  c: 2", "not valid YAML: line 4, column 3: key 'c' is given twice"),
        ("a: 1\nb: ]", "not valid YAML: line 2, column 4: "),
        ("a: 2026-99-99", "not valid YAML: month must be in 1..12"),
        ("a: !!int x", "not valid YAML: invalid literal for int"),
        ("a: !!bool x", "not valid YAML: 'x'"),
        ("a: \x00", "not valid YAML: unacceptable character"),
        ("[" * 5000, "not valid YAML: line 1, column 1001: exceeded maximum nesting depth"),
        ("[" * 70 + "]" * 70, "more than 1000000 values (aliases written out)"),
        ("a: &a [*a]", "more than 1000000 values (aliases written out)"),
        (bomb(), "more than 1000000 values (aliases written out)"),
    ],
    ids=["duplicate", "syntax", "date", "int", "bool", "nul", "depth", "levels", "cycle", "bomb"],
)
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_documents(text)

    assert str(caught.value).startswith(message)


@given(st.text(alphabet="ab:-[]{}&*!,#'\"|>?%@<=12 \n\t") | st.text())
def test_any_text_is_documents_or_an_explained_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        load_documents(text)
