"""What the bodies of all OpenAI APIs have."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from epp.plugins.parsers.json_values import ABSENT
from epp.plugins.parsers.prompt_pieces import ReadPrompts


class OpenAIBody(msgspec.Struct, frozen=True, gc=False):
    """Members every API has; what is not looked at stays raw."""

    model: Raw = ABSENT
    stream: Raw = ABSENT
    cache_salt: Raw = ABSENT

    def prompt_reader(self) -> ReadPrompts | None:
        """What reads the prompts; None: the body lacks what its API needs."""
        raise NotImplementedError

    def max_output_tokens(self) -> int | None:
        """The cap on the answer's length, for the APIs that have one."""
        return None
