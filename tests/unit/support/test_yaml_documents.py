from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.support.yaml_documents import (
    YamlDocumentsError,
    load_documents,
    load_first_document,
)


def bomb() -> str:
    lines = ["a0: &a0 [" + ",".join("x" * 10) + "]"]
    lines += [
        f"a{level}: &a{level} [" + ",".join([f"*a{level - 1}"] * 10) + "]" for level in range(1, 9)
    ]
    return "\n".join(lines)


def test_merge_keys_do_not_make_a_small_text_a_large_value() -> None:
    fields = ", ".join(f"k{number}: v" for number in range(2000))
    text = f"x: &x {{{fields}}}\ny:\n" + "- {<<: *x}\n" * 2000

    with pytest.raises(YamlDocumentsError, match=r"^more than 1000000 values"):
        load_documents(text)


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
        ("a: 2026-99-99", "not valid YAML: line 1, column 4: '2026-99-99' is no timestamp"),
        ("a: !!int x", "not valid YAML: line 1, column 4: 'x' is no int"),
        ("a: !!bool x", "not valid YAML: line 1, column 4: 'x' is no bool"),
        ("a:\n- " + "9" * 5000, f"not valid YAML: line 2, column 3: '{'9' * 79}… is no int"),
        ("a: !!float []", "not valid YAML: line 1, column 4: "),
        ("a: !!set [1]", "not valid YAML: a tag (!!) is no tag for its value"),
        ("a: \x00", "not valid YAML: unacceptable character"),
        ("[" * 5000, "not valid YAML: line 1, column 1001: exceeded maximum nesting depth"),
        ("[" * 70 + "]" * 70, "more than 1000000 values (aliases written out)"),
        ("a: &a [*a]", "more than 1000000 values (aliases written out)"),
        (bomb(), "more than 1000000 values (aliases written out)"),
    ],
    ids=[
        "duplicate",
        "syntax",
        "date",
        "int",
        "bool",
        "digits",
        "float",
        "set",
        "nul",
        "depth",
        "levels",
        "cycle",
        "bomb",
    ],
)
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    with pytest.raises(YamlDocumentsError) as caught:
        load_documents(text)

    assert str(caught.value).startswith(message)


@given(st.text(alphabet="ab:-[]{}&*!,#'\"|>?%@<=12 \n\t") | st.text())
def test_any_text_is_documents_or_an_explained_error(text: str) -> None:
    with contextlib.suppress(YamlDocumentsError):
        load_documents(text)


def test_numbers_are_read_as_json_writes_them() -> None:
    text = '{\n\t"a": 1e3, "b": [-2E-2,\n\t0.5e1], "c": "1e3"}'

    assert load_documents(text) == [{"a": 1000.0, "b": [-0.02, 5.0], "c": "1e3"}]


@pytest.mark.parametrize(
    ("text", "first", "has_more"),
    [
        ("a: 1", {"a": 1}, False),
        ("a: 1\n---\n# nothing\n", {"a": 1}, False),
        ("a: 1\n---\nb: 2", {"a": 1}, True),
        ("# nothing\n---\na: 1\n---\nb: ]", {"a": 1}, True),
        ("# nothing", None, False),
    ],
    ids=["one", "empty second", "two", "broken second", "none"],
)
def test_the_first_document_can_be_read_alone(text: str, first: object, has_more: bool) -> None:
    assert load_first_document(text) == (first, has_more)
