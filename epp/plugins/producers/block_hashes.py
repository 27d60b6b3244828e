"""Prompts as chains of block hashes: equal up to a block only if all before it is equal (§12.2)."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from struct import Struct, iter_unpack

from xxhash import xxh64_intdigest

from epp.framework.data_types import Prompt

NO_LIMIT = sys.maxsize
_BYTES_PER_TOKEN = 4
_MAX_BLOCK_TOKENS = 1 << 40

_joined = Struct("<QQ").pack


def block_chains(
    model: str, salt: str, prompts: Iterable[Prompt], *, block_tokens: int, max_blocks: int
) -> list[list[int]]:
    """One chain for each prompt; together they have at most `max_blocks` blocks.

    The last block of a prompt counts even if it is not full. Adapters are told apart from their
    model and from one another by `model`.
    """
    root = xxh64_intdigest(f"{model}{salt}".encode("utf-8", "surrogatepass"))
    # No prompt is as long as the largest block: its size need only be one that C can hold.
    size = min(block_tokens, _MAX_BLOCK_TOKENS) * _BYTES_PER_TOKEN
    left = max_blocks
    chains = []
    for prompt in prompts:
        if left <= 0:
            break
        chain = _chain(root, memoryview(prompt.tokens), size, left)
        left -= len(chain)
        chains.append(chain)
    return chains


def _chain(root: int, tokens: memoryview, size: int, max_blocks: int) -> list[int]:
    digest, joined = xxh64_intdigest, _joined
    tokens = tokens[: size * max_blocks]
    whole = len(tokens) // size * size
    previous = root
    # Cut by one C call for each block; slices of a view take half as long again.
    chain = [
        previous := digest(joined(digest(block), previous))
        for (block,) in iter_unpack(f"{size}s", tokens[:whole])
    ]
    if whole < len(tokens):
        chain.append(digest(joined(digest(tokens[whole:]), previous)))
    return chain
