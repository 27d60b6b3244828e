"""What the load generator sends, as the file it reads: loadgen/traffic.go."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable

from tests.benchmarks.traffic import FULL_DUPLEX, traffic

MARK = "SERIAL0123456789"
"""The load generator puts digits of its own in its place, others for each request."""
GROUPS = 16
SHARED_PART = 0.4
"""Of a prompt; not half, so that no message of 128 KB ends within the mark."""
_VOCABULARY = (
    "a answer as attention budget cache café cluster compare contract customer describe energy "
    "error explain function gateway have in invoice is latency layer memory model of one "
    "patient policy please prefix protein quarter question region report request return service "
    'summarise that the token translate user value we with you 数据 naïve résumé "quoted"'
)
_WORDS = _VOCABULARY.split()


def recording(body_bytes: int, chunks: int) -> str:
    """Requests of several groups: those of a group share how they begin, no more."""
    alternatives = [
        traffic(body_bytes, chunks, FULL_DUPLEX, prompt=_prompt_of(group), request_id=MARK)
        for group in range(GROUPS)
    ]
    return json.dumps(
        {
            "requests": [_encoded(alternative.request) for alternative in alternatives],
            "response": _encoded(alternatives[0].response),
        }
    )


def _encoded(messages: tuple[bytes, ...]) -> list[str]:
    return [base64.b64encode(message).decode() for message in messages]


def _prompt_of(group: int) -> Callable[[int], str]:
    def prompt(length: int) -> str:
        words = random.Random(group)
        shared = int(length * SHARED_PART)
        return f"{_prose(words, shared)}{MARK}{_prose(words, length - shared - len(MARK))}"

    return prompt


def _prose(words: random.Random, length: int) -> str:
    """Text of `length` bytes in JSON, with characters there that take more than one."""
    text = []
    while length > 0:
        word = words.choice(_WORDS) + " "
        length -= len(json.dumps(word, ensure_ascii=False).encode()) - 2
        text.append(word)
    if length < 0:
        text[-1] = "." * (length + len(json.dumps(text[-1], ensure_ascii=False).encode()) - 2)
    return "".join(text)
