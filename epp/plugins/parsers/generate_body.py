"""What the `generate` bodies of vLLM and SGLang share (protocol §5.5)."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from epp.plugins.parsers.json_values import ABSENT


class SamplingParams(msgspec.Struct, frozen=True, gc=False):
    """The caps on the answer's length, under vLLM's name and under SGLang's."""

    max_tokens: Raw = ABSENT
    max_new_tokens: Raw = ABSENT


_sampling_params = msgspec.json.Decoder(SamplingParams)


def sampling_params(value: Raw) -> SamplingParams:
    """The sampling parameters; without members when they are no object."""
    try:
        return _sampling_params.decode(value)
    except (msgspec.MsgspecError, RecursionError):
        return SamplingParams()
