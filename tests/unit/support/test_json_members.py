"""The model of a body spliced in place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.support.json_members import MAX_DUPLICATES, MemberFinder, with_model

KEYS = st.sampled_from(["model", "Model", "messages", 'mo"del', "model\\", "", "ü", "a"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(['"model":"x"', '{"model": 1}', "\\", '\\"', "]}"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
BLANKS = st.sampled_from(["", " ", "\n\t", "\r\n  "])


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, list[tuple[str, Any]]]:
    """The text of an object with any spacing and escapes, and its members."""
    members = draw(st.lists(st.tuples(KEYS, VALUES), max_size=6))
    texts = []
    for key, value in members:
        key_text = json.dumps(key, ensure_ascii=draw(st.booleans()))
        if draw(st.booleans()):
            key_text = '"' + "".join(f"\\u{ord(letter):04X}" for letter in key) + '"'
        value_text = json.dumps(value, ensure_ascii=draw(st.booleans()), indent=draw(INDENTS))
        blanks = [draw(BLANKS) for _ in range(4)]
        texts.append(f"{blanks[0]}{key_text}{blanks[1]}:{blanks[2]}{value_text}{blanks[3]}")
    return f"{draw(BLANKS)}{{{','.join(texts) or draw(BLANKS)}}}{draw(BLANKS)}", members


INDENTS = st.sampled_from([None, 0, 2])


def pairs_of(document: bytes) -> list[tuple[str, Any]]:
    return json.loads(document, object_pairs_hook=lambda pairs: pairs)  # type: ignore[no-any-return] # the top is an object


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"model":"m","prompt":"a"}', b'{"model":"m-7","prompt":"a"}'),
        (b'{"prompt":"a"}', b'{"model":"m-7","prompt":"a"}'),
        (b' { } ', b' {"model":"m-7" } '),
        (b'{ "a":1}', b'{"model":"m-7", "a":1}'),
        (b'{"\\u006dod\\u0065l":"m"}', b'{"\\u006dod\\u0065l":"m-7"}'),
        (b'{"model": 5 }', b'{"model": "m-7" }'),
        (b'{"model":null}', b'{"model":"m-7"}'),
        (b'{"model":{"model":["x"]},"a":1}', b'{"model":"m-7","a":1}'),
        (b'{"model":1,"a":2,"model":3}', b'{"a":2,"model":"m-7"}'),
        (b'{"a":2 , "model":1 , "model":3}', b'{"a":2 ,   "model":"m-7"}'),
        (b'{"a":{"model":"m"},"b":"\\"model\\":1"}',
         b'{"model":"m-7","a":{"model":"m"},"b":"\\"model\\":1"}'),
        (b'{"n":1.0e0,"big":12345678901234567890,"model":"m"}',
         b'{"n":1.0e0,"big":12345678901234567890,"model":"m-7"}'),
    ],
)  # fmt: skip
def test_only_the_value_of_the_model_changes(body: bytes, expected: bytes) -> None:
    assert with_model(body, "m-7") == expected


LONG = b'"t":"%b"' % (b"word " * 20_000)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"model":"m",%b}', b'{"model":"m-7",%b}'),
        (b'{%b, "model" : "m" , "n":1, "s":"}"} ', b'{%b, "model" : "m-7" , "n":1, "s":"}"} '),
        (b'{%b,"model":"m","stream":true}', b'{%b,"model":"m-7","stream":true}'),
        (b'{%b,"model":"m","l":[1]}', b'{%b,"model":"m-7","l":[1]}'),
        (b'{%b,"model":null}', b'{%b,"model":"m-7"}'),
        (b'{%b,"a":{"model":"m"}}', b'{"model":"m-7",%b,"a":{"model":"m"}}'),
        (b'{%b,"a":"model"}', b'{"model":"m-7",%b,"a":"model"}'),
        (b'{"a":"\\"model","b":"m",%b}', b'{"model":"m-7","a":"\\"model","b":"m",%b}'),
        (b'{"model":"m",%b,"model":"n"}', b'{%b,"model":"m-7"}'),
        (b'{"model":"m",%b,"\\u006dodel":"n"}', b'{%b,"\\u006dodel":"m-7"}'),
        (b'{%b}', b'{"model":"m-7",%b}'),
    ],
)  # fmt: skip
def test_the_model_of_a_long_body_is_found_wherever_it_is(body: bytes, expected: bytes) -> None:
    assert with_model(body % LONG, "m-7") == expected % LONG


@given(documents(), st.text())
def test_every_other_member_keeps_its_text_and_place(
    document: tuple[str, list[tuple[str, Any]]], model: str
) -> None:
    body = document[0].encode()

    spliced = with_model(body, model)

    others = [pair for pair in pairs_of(body) if pair[0] != "model"]
    assert [pair for pair in pairs_of(spliced) if pair[0] != "model"] == others
    assert [value for key, value in pairs_of(spliced) if key == "model"] == [model]


@given(documents())
def test_a_second_splice_undoes_the_first(document: tuple[str, list[tuple[str, Any]]]) -> None:
    names = [key for key, _ in document[1]].count("model")
    body = with_model(document[0].encode(), "first") if names != 1 else document[0].encode()
    before = json.loads(body)["model"]

    there_and_back = with_model(with_model(body, "other"), "first")

    if before == "first":
        assert there_and_back == body
    assert with_model(body, "first") == there_and_back


@given(documents())
def test_members_are_found_where_their_text_stands(
    document: tuple[str, list[tuple[str, Any]]],
) -> None:
    body = document[0].encode()

    found = list(MemberFinder("model", "a").members(body))

    expected = [pair for pair in pairs_of(body) if pair[0] in ("model", "a")]
    assert [member.name for member in found] == [key for key, _ in expected]
    for member, (_, value) in zip(found, expected, strict=True):
        text = b'{"x":%b}' % body[member.value_start : member.value_end]
        assert pairs_of(text) == [("x", value)]


@given(st.binary())
def test_any_bytes_are_read_without_an_error(noise: bytes) -> None:
    finder = MemberFinder("model")

    assert isinstance(list(finder.members(noise)), list)
    assert isinstance(list(finder.members(b'{"model":' + noise)), list)
    assert isinstance(list(finder.members(b'{"a":[' + noise)), list)


@pytest.mark.parametrize(
    "value",
    [
        '"' + "A" * 8_000_000 + '"',
        '"' + '\\"\\\\' * 500_000 + '"',
        "[" * 100_000 + "]" * 100_000,
        '[{"model":"x"}' + ',{"model":"x"}' * 20_000 + "]",
        "0" + ',"a":0' * 100_000,
    ],
    ids=["long text", "escapes", "nesting", "many objects", "many members"],
)
def test_size_and_shape_of_other_members_do_not_matter(value: str) -> None:
    body = f'{{"first":{value},"model":"m"}}'.encode()

    assert with_model(body, "other") == body[: -len('"m"}')] + b'"other"}'


def test_an_unclosed_text_full_of_escapes_ends_the_search() -> None:
    body = b'{"a":"' + b'\\"' * 500_000

    assert list(MemberFinder("model").members(body)) == []


def test_a_body_naming_its_model_over_and_over_is_refused() -> None:
    body = b'{"model":1' + b',"model":1' * MAX_DUPLICATES + b"}"

    with pytest.raises(ValueError, match="more than 1000 members named model"):
        with_model(body, "m")


def test_what_is_not_an_object_is_refused() -> None:
    with pytest.raises(ValueError, match="not a JSON object"):
        with_model(b"[1]", "m")
