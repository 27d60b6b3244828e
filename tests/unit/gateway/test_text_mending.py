"""Messages with texts that are not UTF-8 are read as if these had been replaced."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from epp.gateway.text_mending import read_request
from epp.wire import ext_proc_pb2 as wire

NAMESPACE = "a.namespace"

values = st.recursive(
    st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=8,
)


def raw_value(value: Any) -> wire.RawValue:
    if isinstance(value, bytes):
        return wire.RawValue(string_value=value)
    if isinstance(value, list):
        return wire.RawValue(list_value=wire.RawListValue(values=map(raw_value, value)))
    return wire.RawValue(struct_value=raw_struct(value))


def raw_struct(value: dict[str, Any]) -> wire.RawStruct:
    return wire.RawStruct(fields={key: raw_value(each) for key, each in value.items()})


def replaced(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list):
        return [replaced(each) for each in value]
    return {key: replaced(each) for key, each in value.items()}


@given(st.dictionaries(st.text("ab"), values, max_size=3))
def test_texts_are_replaced_wherever_they_are(value: dict[str, Any]) -> None:
    whole = wire.ProcessingRequest(request_body=wire.HttpBody(body=b"\xff", end_of_stream=True))
    whole.attributes["others"].update({"number": 1.5, "nothing": None, "flag": True})
    raw = wire.RawProcessingRequest(attributes={NAMESPACE: raw_struct(value)})
    raw.metadata_context.filter_metadata[NAMESPACE].CopyFrom(raw_struct(value))

    read = read_request(whole.SerializeToString() + raw.SerializeToString())

    assert read.request_body == whole.request_body
    assert MessageToDict(read.attributes[NAMESPACE]) == replaced(value)
    assert MessageToDict(read.metadata_context.filter_metadata[NAMESPACE]) == replaced(value)
    assert read.attributes["others"] == whole.attributes["others"]


@pytest.mark.parametrize("message", [b"\xff\xff\xff", b"\x12\x05\x0a"], ids=["tag", "cut"])
def test_what_is_no_message_is_an_error(message: bytes) -> None:
    with pytest.raises(DecodeError):
        read_request(message)
