"""Token usage in the `meta_info` of SGLang's responses (protocol §5.5)."""

from __future__ import annotations

from typing import Any

import msgspec

from epp.framework.request_handling import ResponseReader
from epp.plugins.parsers.usage import Block, JsonUsageReader, SseUsageReader, UsageSource


class _Event(msgspec.Struct, frozen=True, gc=False):
    meta_info: dict[str, Any] | None = None


_event = msgspec.json.Decoder(_Event)


def sglang_usage_reader(*, streaming: bool) -> ResponseReader:
    """A reader for one response of SGLang's `generate`."""
    return SseUsageReader(source=_META_INFO) if streaming else JsonUsageReader(source=_META_INFO)


def _usage_of(meta_info: dict[str, Any]) -> Block:
    return {
        "prompt_tokens": meta_info.get("prompt_tokens"),
        "completion_tokens": meta_info.get("completion_tokens"),
        "prompt_tokens_details": {"cached_tokens": meta_info.get("cached_tokens")},
    }


def _usage_of_last_event(text: bytes) -> Block:
    """The usage of the event that says why the answer ended; others have counts so far."""
    try:
        meta_info = _event.decode(text).meta_info
    except (msgspec.MsgspecError, RecursionError):
        return None
    if meta_info is None or meta_info.get("finish_reason") is None:
        return None
    return _usage_of(meta_info)


_META_INFO = UsageSource(b'"meta_info"', _usage_of_last_event, _usage_of)
