"""Plugins that raise what they were told in confidence, at whatever point they are called."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Iterator
from typing import Any

from epp.framework.errors import ErrorCode, Rejection
from epp.framework.plugin import Plugin
from epp.framework.request import InferenceRequest
from epp.framework.request_control import (
    Admitter,
    DataProducer,
    PreRequest,
    RequestHeader,
    ResponseBody,
    ResponseHeader,
    ResponseMetadata,
    ResponseProgress,
    Screener,
)
from epp.framework.request_handling import Parser
from epp.framework.scheduling import Filter, Picker, ProfileHandler, Scorer
from epp.framework.scheduling_results import SchedulingResult

SECRET = "s3cr3t"
"""What a client sends, wherever it may send something."""

CONTRACTS: dict[type[Plugin], tuple[str, ...]] = {
    RequestHeader: ("request_header",),
    Screener: ("screen",),
    DataProducer: ("produce",),
    Admitter: ("admit",),
    PreRequest: ("pre_request",),
    ResponseHeader: ("response_header",),
    ResponseBody: ("response_body",),
    ResponseProgress: ("first_chunk", "ended"),
    ResponseMetadata: ("response_metadata",),
    Parser: ("parse_request", "response_reader"),
    Filter: ("filter",),
    Scorer: ("score",),
    Picker: ("pick",),
    ProfileHandler: ("pick", "process"),
}


class Trap(dict[str, Any]):
    """Metadata that raise what nobody has reckoned with when they are looked at."""

    def __init__(self) -> None:
        super().__init__({"a": {}})

    def items(self) -> Any:
        raise LookupError(SECRET)


class Trapper(PreRequest):
    """Makes the stream fail after the pick."""

    type = "trapper"

    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        request.dynamic_metadata = Trap()


def rejection() -> Exception:
    """An error that is typed, with a message for the client alone."""
    return Rejection(ErrorCode.FORBIDDEN, f"not to be answered: {SECRET}")


def bug() -> Exception:
    """An error in a chain, a group and a note."""
    error = ExceptionGroup(SECRET, [ValueError(SECRET), KeyError(SECRET)])
    error.__cause__ = LookupError(SECRET)
    error.add_note(SECRET)
    return error


def gossips(made: Callable[[], Exception]) -> Iterator[type[Plugin]]:
    """One plugin for each contract, which raises what `made` gives."""
    for contract, methods in CONTRACTS.items():
        yield _gossip(contract, methods, made)
    yield _gossip(DataProducer, ("produce",), made, waits=True)


def _gossip(
    contract: type[Plugin],
    methods: tuple[str, ...],
    made: Callable[[], Exception],
    *,
    waits: bool = False,
) -> type[Plugin]:
    def tell(_self: Plugin, *_told: Any, **_more: Any) -> Any:
        raise made()

    async def tell_later(_self: Plugin, *_told: Any) -> None:
        await asyncio.sleep(0)
        # One more, which nobody waits for.
        asyncio.get_running_loop().create_task(_fail(made()), name=SECRET)
        await asyncio.sleep(0)
        raise made()

    kind = f"gossip-{'waiting-' if waits else ''}{contract.__name__.lower()}"
    act = tell_later if waits else tell
    members: dict[str, Any] = {"type": kind, **dict.fromkeys(methods, act)}
    if contract is Parser:
        members["suffixes"] = ("completions",)
    return types.new_class(kind, (contract,), exec_body=lambda space: space.update(members))


async def _fail(error: Exception) -> None:
    raise error
