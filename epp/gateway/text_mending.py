"""Messages of the gateway, read also where a text in them is not UTF-8 (decision 31).

Attributes and metadata can hold values of client's headers, which are any bytes.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from epp.wire import ext_proc_pb2 as wire


def read_request(message: bytes) -> wire.ProcessingRequest:
    """One `ProcessingRequest`; raises `DecodeError` for what is none."""
    try:
        return wire.ProcessingRequest.FromString(message)
    except DecodeError:
        return wire.ProcessingRequest.FromString(_with_texts_replaced(message))


def _with_texts_replaced(message: bytes) -> bytes:
    raw = wire.RawProcessingRequest.FromString(message)
    for namespaces in (raw.metadata_context.filter_metadata, raw.attributes):
        for struct in namespaces.values():
            _replace_in_struct(struct)
    return raw.SerializeToString()


def _replace_in_struct(struct: wire.RawStruct) -> None:
    for value in struct.fields.values():
        _replace_in_value(value)


def _replace_in_value(value: wire.RawValue) -> None:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        value.string_value = value.string_value.decode("utf-8", "replace").encode()
    elif kind == "struct_value":
        _replace_in_struct(value.struct_value)
    elif kind == "list_value":
        for each in value.list_value.values:
            _replace_in_value(each)
