"""Prompts as parsers read them out of bodies."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epp.framework.errors import Rejection
from epp.framework.parsed_request import Media, PromptText
from epp.framework.request_handling import Parser
from epp.plugins.parsers.anthropic import AnthropicParser
from epp.plugins.parsers.json_values import MAX_CONTAINERS
from epp.plugins.parsers.openai import OpenAIParser
from epp.plugins.parsers.prompt_pieces import MAX_DECODED_URL, MAX_PIECES_CUT, MAX_UNESCAPED
from epp.plugins.parsers.prompt_values import MAX_PROMPTS, MAX_TEXTS_BYTES
from epp.plugins.parsers.token_ids import MAX_READ_BYTES, SLICE_BYTES

SAMPLES = Path(__file__).parents[3] / "samples" / "requests"

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
RESPONSES = "/v1/responses"
CONVERSATIONS = "/v1/conversations"
EMBEDDINGS = "/v1/embeddings"
IMAGES = "/v1/images/generations"
MESSAGES = "/v1/messages"
PATHS = (CHAT, COMPLETIONS, RESPONSES, CONVERSATIONS, EMBEDDINGS, IMAGES, MESSAGES)

TOOLS = [{"type": "function", "function": {"name": "f"}}]


def parser_of(path: str) -> Parser:
    return AnthropicParser() if path == MESSAGES else OpenAIParser()


def prompts(path: str, body: bytes | dict[str, Any]) -> Sequence[PromptText]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    read = parser_of(path).parse_request(path, content).read_prompts
    assert read is not None
    return read()


def shown(prompt: PromptText) -> str:
    """Text with media as `<modality content>`."""
    return b"".join(
        b"<%b %b>" % (piece.modality.encode(), bytes(piece.content))
        if isinstance(piece, Media)
        else bytes(piece)
        for piece in prompt.pieces
    ).decode("utf-8", "replace")


def only(path: str, body: bytes | dict[str, Any]) -> str:
    (prompt,) = prompts(path, body)
    return shown(prompt)


def chat(*messages: object, **members: object) -> str:
    return only(CHAT, {"messages": messages, **members})


def anthropic(*messages: object, **members: object) -> str:
    return only(MESSAGES, {"messages": messages, **members})


def user(content: object) -> dict[str, Any]:
    return {"role": "user", "content": content}


def common(first: str, second: str) -> str:
    length = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
    return first[:length]


def ids(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def test_a_chat_is_its_roles_and_texts_without_separators() -> None:
    text = chat({"role": "system", "content": "be brief"}, user("hi"))

    assert text == "systembe briefuserhi"


def test_escapes_of_texts_are_resolved() -> None:
    body = rb'{"messages":[{"role":"user","content":"\u00fc\n\"\ud83d\ude80\/ \u00e9' + "ü".encode()

    assert only(CHAT, body + b'"}]}') == 'userü\n"🚀/ éü'


def test_equal_texts_are_equal_however_they_are_escaped() -> None:
    body = {"messages": [user("Grüße 🚀")]}
    plain = json.dumps(body, ensure_ascii=False).encode()

    assert only(CHAT, json.dumps(body).encode()) == only(CHAT, plain)


def test_text_that_is_no_utf8_is_taken_as_it_is() -> None:
    body = b'{"messages":[{"role":"user","content":"\xff\\n\xfe"},{"content":"\xfe"}]}'

    (prompt,) = prompts(CHAT, body)

    assert b"".join(p for p in prompt.pieces if isinstance(p, bytes)) == b"user\xff\\n\xfe\xfe"


def test_parts_of_a_content_stand_in_their_order() -> None:
    parts = [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "https://i", "detail": "low"}},
        {"type": "text", "text": "b"},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "video_url", "video_url": {"url": "https://v"}},
        None,
        {"type": "audio_url", "audio_url": {"url": "https://s"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,QUJD"}},
    ]

    assert chat(user(parts)) == (
        'usera<image https://i>b<audio AAAA><video https://v>{"url": "https://s"}'
        '{"file_data": "<file data:application/pdf;base64,QUJD>"}'
    )


@pytest.mark.parametrize("content", [None, "", [], [None], [{}], [{"image_url": {"url": ""}}]])
def test_nothing_as_content_adds_nothing(content: object) -> None:
    assert chat(user(content), None, {}) == "user"


def test_chats_that_differ_in_a_tool_calls_arguments_share_what_stands_before() -> None:
    def with_arguments(arguments: str) -> str:
        function = {"name": "f", "arguments": arguments}
        call = {"role": "assistant", "content": None, "tool_calls": [{"function": function}]}
        return chat(user("go"), call, {"role": "tool", "content": "5"})

    shared = common(with_arguments('{"a":1}'), with_arguments('{"a":2}'))

    assert shared.startswith('usergoassistant[{"function"')
    assert shared.endswith(r"{\"a\":")


def test_tools_come_before_the_system_text() -> None:
    def with_tool(name: str, question: str) -> str:
        system = {"role": "system", "content": "rules"}
        return chat(system, user(question), tools=[{"function": {"name": name}}])

    assert common(with_tool("f", "a"), with_tool("f", "b")).endswith("systemrulesuser")
    assert common(with_tool("f", "a"), with_tool("g", "a")) == '[{"function": {"name": "'


@pytest.mark.parametrize("tools", [None, []])
def test_no_tools_leave_no_trace(tools: object) -> None:
    assert chat(user("a"), tools=tools) == anthropic(user("a"), tools=tools) == "usera"


def test_a_data_url_is_neither_copied_nor_decoded() -> None:
    url = "data:image/png;base64," + "A" * MAX_DECODED_URL

    (prompt,) = prompts(CHAT, {"messages": [user([{"image_url": {"url": url}}])]})

    media = prompt.pieces[1]
    assert isinstance(media, Media)
    assert isinstance(media.content, memoryview)
    assert media.content == url.encode()


def test_escapes_of_short_urls_are_resolved() -> None:
    body = rb'{"messages":[{"content":[{"image_url":{"url":"https:\/\/i"}}]}]}'

    assert only(CHAT, body) == "<image https://i>"


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"type": "text", "text": "a"}, "a"),
        ({"type": "thinking", "thinking": "hm", "signature": "x"}, "hm"),
        (
            {"type": "tool_use", "id": "1", "name": "f", "input": {"b": 1, "a": 2}},
            '1f{"b": 1, "a": 2}',
        ),
        ({"type": "tool_result", "tool_use_id": "1", "content": "52"}, "52"),
        ({"type": "tool_result", "content": [{"type": "text", "text": "52"}, None]}, "52"),
        (
            {"type": "tool_result", "content": [{"source": {"data": "AA"}}, {"text": "a"}]},
            "<image AA>a",
        ),
        ({"type": "tool_result", "content": {"a": 1}}, '{"a": 1}'),
        ({"type": "tool_result", "content": [5]}, "[5]"),
        ({"type": "tool_result", "content": [{"url": "x"}]}, '[{"url": "x"}]'),
        (
            {"type": "tool_result", "content": [{"content": [{"text": "a"}]}]},
            '[{"text": "a"}]',
        ),
        ({"type": "image", "source": {"type": "base64", "data": "AA"}}, "<image AA>"),
        ({"source": {"type": "url", "url": "https://i"}}, "<image https://i>"),
        ({"type": "document", "source": {"type": "base64", "data": "AA"}}, "<file AA>"),
        ({"type": "document", "source": {"type": "text", "data": "words"}}, "words"),
        ({}, ""),
        (None, ""),
    ],
)
def test_anthropic_blocks_take_part(block: object, text: str) -> None:
    assert anthropic(user([block])) == f"user{text}"


@pytest.mark.parametrize("system", ["rules", [{"type": "text", "text": "rules"}]])
def test_anthropic_tools_and_system_come_first(system: object) -> None:
    tools = [{"name": "f", "input_schema": {"b": 1, "a": 2}}]

    text = anthropic(user("hi"), tools=tools, system=system)

    assert text == '[{"name": "f", "input_schema": {"b": 1, "a": 2}}]rulesuserhi'


def test_the_next_turn_of_an_anthropic_conversation_has_the_last_as_its_prefix() -> None:
    body = json.loads((SAMPLES / "anthropic_tools.json").read_bytes())
    first = {**body, "messages": body["messages"][:1]}

    assert only(MESSAGES, body).startswith(only(MESSAGES, first))


def test_responses_are_a_list_of_instructions_tools_and_input() -> None:
    body = b'{"input":"hi","model":"m","tools":[1, 2],"instructions":"be brief"}'

    assert only(RESPONSES, body) == '[{"instructions":"be brief"},{"tools":[1, 2]},{"input":"hi"}]'


def test_a_response_that_continues_another_has_its_own_input_only() -> None:
    body = {"model": "m", "previous_response_id": "r1", "input": "hi", "instructions": None}

    assert only(RESPONSES, body) == '[{"input":"hi"}]'


def test_items_of_conversations_are_taken_as_written() -> None:
    assert only(CONVERSATIONS, b'{"items":[ {"content":"a"}]}') == '[ {"content":"a"}]'


def test_data_urls_anywhere_in_items_are_media() -> None:
    url = "data:image/png;base64,QUJD"
    parts = [{"type": "input_image", "image_url": url}, {"text": 'say "data:image/png;base64,A"'}]

    text = only(RESPONSES, {"input": [user(parts)]})

    assert f'"image_url": "<image {url}>"' in text
    assert text.count("<") == 1


def test_a_data_url_with_escapes_ends_at_its_quote() -> None:
    body = rb'{"items":["data:image\/png;base64,A\/\"","b"]}'

    assert only(CONVERSATIONS, body) == r'["<image data:image\/png;base64,A\/\">","b"]'


def test_data_urls_without_number_stay_text() -> None:
    url = "data:image/png;base64,QUJD"

    text = only(CONVERSATIONS, {"items": [url] * MAX_PIECES_CUT})

    assert text.count("<") == MAX_PIECES_CUT // 2
    assert text.count(url) == MAX_PIECES_CUT


@pytest.mark.parametrize("almost", ["data:", "data:image/png,A", "data:image/" + ";base64" * 28])
def test_strings_that_begin_like_data_urls_are_not_looked_at_without_end(almost: str) -> None:
    url = "data:image/png;base64,QUJD"
    few, many = [almost] * 9, [almost] * MAX_PIECES_CUT

    assert only(CONVERSATIONS, {"items": [*few, url]}).count("<") == 1
    assert only(CONVERSATIONS, {"items": [*many, url]}).count("<") == 0


def test_texts_of_a_completion_are_prompts_of_their_own() -> None:
    found = prompts(COMPLETIONS, rb'{"prompt":["a\n" , "","]"]}')

    assert [shown(prompt) for prompt in found] == ["a\n", "", "]"]


@pytest.mark.parametrize("path", [COMPLETIONS, EMBEDDINGS])
@pytest.mark.parametrize(
    ("value", "expected"),
    [([1, 2], [ids(1, 2)]), ([[1], [2**32 - 1, 0]], [ids(1), ids(2**32 - 1, 0)])],
)
def test_token_ids_are_kept_as_they_are(path: str, value: object, expected: list[bytes]) -> None:
    found = prompts(path, {"prompt": value, "input": value})

    assert [prompt.token_ids for prompt in found] == expected


def test_long_lists_of_token_ids_are_read_in_slices() -> None:
    numbers = list(range(2**32 - SLICE_BYTES // 3, 2**32))

    (prompt,) = prompts(COMPLETIONS, {"prompt": numbers})

    assert prompt.token_ids == ids(*numbers)


@pytest.mark.parametrize("between", [b",", b"],["], ids=["one list", "lists"])
def test_of_more_token_ids_than_are_looked_at_the_rest_is_only_counted(between: bytes) -> None:
    part = b"1234567," * (SLICE_BYTES // 8) + b"7"
    numbers = between.join([part] * (MAX_READ_BYTES // len(part) + 2))
    if between != b",":
        numbers = b"[" + numbers + b"]"

    found = prompts(COMPLETIONS, b'{"prompt":[' + numbers + b"]}")

    read = b"".join(prompt.token_ids or b"" for prompt in found)
    count = len(read) // 4
    assert MAX_READ_BYTES // 8 <= count < (MAX_READ_BYTES + 2 * SLICE_BYTES) // 8
    assert read[:4] == ids(1234567)
    all_of_them = numbers.count(b",") + 1
    assert count + sum(prompt.omitted_tokens for prompt in found) == all_of_them
    with pytest.raises(Rejection):
        prompts(COMPLETIONS, b'{"prompt":[' + numbers + b',"a"]}')
    with pytest.raises(Rejection):
        prompts(COMPLETIONS, b'{"prompt":[' + numbers + b",-1]}")


@pytest.mark.parametrize("last", ['"a,b"', "-1", " " * SLICE_BYTES + ",1.5", "1.5", "[1]"])
def test_long_lists_with_something_else_are_refused(last: str) -> None:
    body = b'{"prompt":[' + b"1234567," * (SLICE_BYTES // 8) + last.encode() + b"]}"

    with pytest.raises(Rejection):
        prompts(COMPLETIONS, body)


@pytest.mark.parametrize("item", ["a", [1]])
def test_prompts_beyond_the_bound_are_one(item: object) -> None:
    found = prompts(COMPLETIONS, {"prompt": [item] * (MAX_PROMPTS + 9)})

    assert len(found) == MAX_PROMPTS
    last = found[-1].token_ids or shown(found[-1]).encode()
    assert last in (ids(*[1] * 10), b'"a", ' * 9 + b'"a"]')


@pytest.mark.parametrize("path", [COMPLETIONS, EMBEDDINGS])
@pytest.mark.parametrize("text", ["", '"', "a" * 99_999, '"' * MAX_TEXTS_BYTES])
def test_of_long_lists_of_texts_the_rest_is_not_looked_at(path: str, text: str) -> None:
    item = json.dumps(text).encode()
    texts = (item + b" ,\n") * (MAX_TEXTS_BYTES // len(item) + 1)
    body = b'{"%b":[%b' % (b"input" if path == EMBEDDINGS else b"prompt", texts)

    found = prompts(path, body + b"1]}")

    assert len(found) <= MAX_PROMPTS
    assert shown(found[-1]).endswith("1]")


@pytest.mark.parametrize("path", [COMPLETIONS, EMBEDDINGS])
@pytest.mark.parametrize("items", ['"a", 1', '"a","b" ,null', '"a",["b"]', '"a",{"b":"c"}'])
def test_a_list_with_texts_and_something_else_is_refused(path: str, items: str) -> None:
    with pytest.raises(Rejection):
        prompts(path, f'{{"prompt":[{items}],"input":[{items}]}}'.encode())


UNITS = ("a", "\\", "\n", "\x01", "ü", "中", "😀")


@given(
    st.text(st.sampled_from(UNITS), min_size=1, max_size=9),
    st.integers(0, 20),
    st.booleans(),
    st.sampled_from([CHAT, COMPLETIONS, MESSAGES]),
)
@settings(max_examples=30, deadline=None)
def test_of_a_long_text_the_beginning_is_unescaped_and_the_rest_stays_where_it_is(
    unit: str, shift: int, ascii_only: bool, path: str
) -> None:
    text = "x" * shift + unit * (MAX_UNESCAPED // len(unit.encode()) + 20)
    members = (
        {"prompt": text} if path == COMPLETIONS else {"messages": [user(text), user("y" * 999)]}
    )
    body = json.dumps(members, ensure_ascii=ascii_only).encode()

    (prompt,) = prompts(path, body)

    beginning, rest, *others = prompt.pieces[0 if path == COMPLETIONS else 1 :]
    assert isinstance(beginning, bytes)
    assert isinstance(rest, memoryview)
    assert text.startswith(beginning.decode())
    assert beginning + json.loads(b'"%b"' % bytes(rest)).encode() == text.encode()
    written = json.dumps(text, ensure_ascii=ascii_only).encode()
    assert 0 <= MAX_UNESCAPED - (len(written) - 2 - len(rest)) <= 20
    if others:
        assert others[0] == b"user"
        assert isinstance(others[1], memoryview)


def test_a_long_text_that_is_broken_is_taken_as_it_is_written() -> None:
    text = b"\xff\\n" * MAX_UNESCAPED

    (prompt,) = prompts(COMPLETIONS, b'{"prompt":"%b"}' % text)

    assert b"".join(map(_bytes_of, prompt.pieces)) == text


def test_all_texts_of_a_request_share_the_bound() -> None:
    half = "\n" * (MAX_UNESCAPED // 4)

    found = prompts(COMPLETIONS, {"prompt": [half, half, half, "\n"]})

    assert [len(prompt.pieces) for prompt in found] == [1, 2, 1, 1]
    assert found[2].pieces[0] == json.dumps(half).encode()[1:-1]
    assert found[3].pieces[0] == b"\n"


def _bytes_of(piece: bytes | memoryview | Media) -> bytes:
    return bytes(piece.content if isinstance(piece, Media) else piece)


def test_texts_of_embeddings_are_one_prompt_as_written() -> None:
    assert only(EMBEDDINGS, b'{"input":["a", "b"]}') == '["a", "b"]'
    assert only(EMBEDDINGS, b'{"input":"a"}') == '"a"'


def test_the_prompt_of_an_image_is_its_text() -> None:
    assert only(IMAGES, {"prompt": "a boat"}) == "a boat"


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("body", ["[%b]", '[{"role":"user","content":[%b]}]'])
def test_countless_nulls_are_refused(path: str, body: str) -> None:
    nulls = b"null," * MAX_CONTAINERS + b"null"

    with pytest.raises(Rejection):
        prompts(path, b'{"messages":' + body.encode() % nulls + b"}")


@pytest.mark.parametrize("path", PATHS)
def test_the_cache_salt_is_the_bodys(path: str) -> None:
    body = {"messages": [user("a")], "prompt": "a", "input": "a", "items": [1]}

    def salt(value: object) -> str:
        content = json.dumps({**body, "cache_salt": value}).encode()
        return parser_of(path).parse_request(path, content).cache_salt

    assert salt("tenant-ü") == "tenant-ü"
    assert salt(None) == ""


SAMPLE_PATHS = {
    "anthropic_tools": MESSAGES,
    "anthropic_basic": MESSAGES,
    "chat": CHAT,
    "completions": COMPLETIONS,
    "embeddings": EMBEDDINGS,
    "images": IMAGES,
    "responses": RESPONSES,
}


@pytest.mark.parametrize(
    ("file", "path"),
    [(f, path) for name, path in SAMPLE_PATHS.items() for f in sorted(SAMPLES.glob(f"{name}*"))],
    ids=lambda value: getattr(value, "stem", ""),
)
def test_prompts_of_samples_are_not_empty(file: Path, path: str) -> None:
    found = prompts(path, file.read_bytes())

    assert found
    assert all(prompt.token_ids or shown(prompt) for prompt in found)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 2**33)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "text", "type", "source", "data", "url", "input", "name"]
            )
            | st.text(),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
MEDIA_URL = st.builds("data:{}/x;base64,{}".format, st.sampled_from(["image", "a"]), st.text())
TEXT = st.none() | st.text() | MEDIA_URL
CHAT_PART = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "type": TEXT,
        "text": TEXT,
        "image_url": st.fixed_dictionaries({"url": TEXT}),
        "input_audio": st.fixed_dictionaries({"data": TEXT}),
        "video_url": st.none() | st.fixed_dictionaries({"url": TEXT}),
        "audio_url": JSON,
        "file": JSON | st.fixed_dictionaries({"file_data": MEDIA_URL}),
    },
)
ANTHROPIC_PART = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["text", "tool_result", "document"]),
        "text": TEXT,
        "thinking": TEXT,
        "id": TEXT,
        "name": TEXT,
        "input": JSON,
        "content": JSON,
        "source": st.none() | st.fixed_dictionaries({"type": TEXT, "data": TEXT, "url": TEXT}),
    },
)


def message_of(part: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | st.fixed_dictionaries(
        {"role": TEXT, "content": TEXT | st.lists(part, max_size=4)},
        optional={"tool_calls": st.none() | st.lists(JSON, max_size=2)},
    )


CONVERSATION = {CHAT: message_of(CHAT_PART), MESSAGES: message_of(ANTHROPIC_PART)}
MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "prompt": JSON | st.lists(st.text()) | st.lists(st.lists(st.integers(0, 2**32 - 1))),
        "input": JSON | st.lists(st.integers(0, 2**32 - 1)),
        "items": JSON,
        "messages": JSON | st.lists(CONVERSATION[CHAT] | CONVERSATION[MESSAGES], min_size=1),
        "tools": JSON | st.lists(st.fixed_dictionaries({"name": TEXT})),
        "system": JSON | st.lists(ANTHROPIC_PART),
        "instructions": JSON,
        "cache_salt": TEXT,
    },
)


@given(st.sampled_from(PATHS), MEMBERS, st.booleans())
def test_whatever_a_parser_accepts_is_read_the_same_each_time(
    path: str, body: dict[str, Any], is_ascii: bool
) -> None:
    content = json.dumps(body, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    try:
        first = prompts(path, content)
    except Rejection:
        return

    assert first == prompts(path, bytes(bytearray(content)))
    assert all(isinstance(shown(prompt), str) for prompt in first)


@given(st.data(), st.sampled_from([CHAT, MESSAGES]))
def test_a_conversation_that_goes_on_keeps_its_prompt_as_prefix(
    data: st.DataObject, path: str
) -> None:
    turns = data.draw(st.lists(CONVERSATION[path], min_size=1, max_size=4))
    more = data.draw(st.lists(CONVERSATION[path], max_size=3))

    (before,) = prompts(path, {"messages": turns, "tools": TOOLS})
    (after,) = prompts(path, {"messages": turns + more, "tools": TOOLS})

    assert list(after.pieces)[: len(before.pieces)] == list(before.pieces)


@given(st.data(), st.sampled_from([CHAT, MESSAGES]))
def test_a_message_that_differs_leaves_what_stands_before_it(
    data: st.DataObject, path: str
) -> None:
    turns = data.draw(st.lists(CONVERSATION[path], min_size=1, max_size=4))

    first, second = (only(path, {"messages": [*turns, user(text)]}) for text in ("left", "right"))

    assert common(first, second).endswith("user")
    assert len(common(first, second)) == len(first) - len("left")
