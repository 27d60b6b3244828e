"""Nothing of a client is in any log, at any level: neither body nor header values nor query.

A marker stands wherever a client or a model server can put something; then the log of the process
and its libraries at its most talkative, the request log and the kept decisions are searched.
"""

from __future__ import annotations

import ast
import asyncio
import gc
import gzip
import io
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import grpc
import msgspec
import pytest

import epp
from epp.admin.decision_viewing import view_decision
from epp.app.request_path import RequestPathSettings
from epp.datastore.inference_pool import FailureMode
from epp.framework.plugin import Plugin
from epp.framework.request_handling import Parser
from epp.gateway.context import GatewaySettings
from epp.observability.log_level import LogLevelSwitch
from epp.observability.logging import LogFormat, configure_logging
from epp.observability.request_log import console_line, json_line
from epp.request_control.director_settings import DirectorSettings
from epp.support.loop_faults import tell_of_fault
from tests.fakes.logs import logging_as_it_was
from tests.fakes.pickers.gateway_client import Exchange
from tests.fakes.pickers.picker import Picker, running_picker
from tests.fakes.plugins.gossips import SECRET, Trapper, bug, gossips, rejection

ROOMS = ("framework", "gateway", "plugins", "request_control")
HEADER = re.compile(
    r"x-[a-z0-9]+(-[a-z0-9]+)+|test-[a-z-]+|content-(type|encoding|length)"
    r"|authorization|cookie|prefer|user-agent|te|traceparent|tracestate|baggage|session[-_]id"
)
NAMES = frozenset(
    {
        "x-request-id",
        "x-llm-d-inference-fairness-id",
        "x-gateway-inference-fairness-id",
        "x-llm-d-model-name-rewrite",
        "x-gateway-model-name-rewrite",
        "x-original-path",
        "x-forwarded-path",
    }
)
"""What requests are told apart by is in logs, cut and escaped."""

MANY_READERS = """
plugins:
- {type: session-affinity-filter}
- {type: session-affinity-scorer}
- {type: header-label-affinity-scorer, parameters: {headerName: x-zone, labelKey: zone}}
- {type: session-id-producer, parameters: {cookieName: c}}
- {type: latency-slo-admitter}
- {type: queue-scorer}
"""
PROFILES = """
plugins: [{type: header-profile-handler, parameters: {headerName: x-session-id}}]
schedulingProfiles: [{name: a}, {name: b}]
"""
CONFIGURATIONS = {
    "built-in": "",
    "many readers": MANY_READERS,
    "the client selects": "plugins: [{type: header-based-testing-filter}, {type: queue-scorer}]",
    "the client names a profile": PROFILES,
    "one parser": "requestHandler: {parsers: [{pluginRef: sglanghttp-parser}]}",
}
REQUESTS: Mapping[str, tuple[str, bytes]] = {
    "completion": ("/v1/completions", b'{"model":"m","prompt":"s3cr3t","s3cr3t":["s3cr3t"]}'),
    "chat": (
        "/v1/chat/completions",
        b'{"model":"m","messages":[{"role":"s3cr3t","content":"s3cr3t"}],"tools":["s3cr3t"]}',
    ),
    "query": ("/v1/completions?api-key=s3cr3t#s3cr3t", b'{"model":"m","prompt":"s3cr3t"}'),
    "no model": ("/v1/completions", b'{"prompt":"s3cr3t","s3cr3t":1}'),
    "model of another type": ("/v1/completions", b'{"model":{"s3cr3t":"s3cr3t"},"prompt":"a"}'),
    "prompt of another type": ("/v1/completions", b'{"model":"m","prompt":{"s3cr3t":1}}'),
    "messages of another type": ("/v1/chat/completions", b'{"model":"m","messages":"s3cr3t"}'),
    "cut JSON": ("/v1/completions", b'{"model":"m","prompt":"s3cr3t'),
    "no JSON": ("/v1/completions", b"s3cr3t"),
    "JSON and more": ("/v1/completions", b'{"model":"m","prompt":"a"} s3cr3t'),
    "a bad escape": ("/v1/completions", b'{"model":"m","prompt":"\\s3cr3t"}'),
    "no UTF-8": ("/v1/completions", b'{"model":"m","cache_salt":"s3cr3t\xff"}'),
    "deep JSON": ("/v1/completions", b'{"model":"m","s3cr3t":' + b"[" * 5000),
    "multipart": ("/v1/completions", b'--s3cr3t\r\nname="s3cr3t"\r\n\r\ns3cr3t\r\n--s3cr3t--'),
    "gRPC": ("/inference.Engine/Generate", b"\0\0\0\0\x06s3cr3t"),
    "anthropic": (
        "/v1/messages",
        b'{"model":"m","system":"s3cr3t","messages":[{"role":"s3cr3t","content":"s3cr3t"}]}',
    ),
    "anthropic, another type": (
        "/v1/messages",
        b'{"model":"m","messages":[{"role":"user","content":{"s3cr3t":"s3cr3t"}}]}',
    ),
    "anthropic tools": (
        "/v1/messages",
        b'{"model":"m","messages":[{}],"tools":[{"name":{"s3cr3t":1}},"s3cr3t"]}',
    ),
    "token ids": ("/inference/v1/generate", b'{"model":"m","token_ids":[1,"s3cr3t"]}'),
    "a token id of a client": ("/inference/v1/generate", b'{"model":"m","token_ids":[1,73.25]}'),
    "images": ("/v1/images/generations", b'{"model":"m","s3cr3t":"s3cr3t"}'),
    "embeddings": ("/v1/embeddings", b'{"model":"m","input":{"s3cr3t":"s3cr3t"}}'),
    "responses": ("/v1/responses", b'{"model":"m","input":[{"s3cr3t":"s3cr3t"}]}'),
    "too large": ("/v1/completions", b'{"model":"m","prompt":"' + b"s3cr3t" * 20_000),
}
ENCODINGS: Mapping[str, tuple[str, bytes]] = {
    "unknown": ("s3cr3t", b"s3cr3t"),
    "several": ("gzip, s3cr3t", b"s3cr3t"),
    "gzip that is none": ("gzip", b"s3cr3t"),
    "gzip that is cut": ("gzip", gzip.compress(b'{"model":"m","prompt":"s3cr3t"}')[:-9]),
    "gzip of no JSON": ("gzip", gzip.compress(b"s3cr3t")),
    "gzip that grows": ("gzip", gzip.compress(b"s3cr3t" * 300_000)),
    "deflate that is none": ("deflate", b"s3cr3t"),
}


def read_headers() -> Iterator[str]:
    """Every header whose name stands in the rooms that see requests."""
    for room in ROOMS:
        for path in (Path(epp.__file__).parent / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                text = node.value if isinstance(node, ast.Constant) else None
                if isinstance(text, str) and HEADER.fullmatch(text.lower()):
                    yield text.lower()


SECRETS = {
    **dict.fromkeys({*read_headers(), "authorization", "x-zone"} - NAMES, SECRET),
    "cookie": f"c={SECRET}; {SECRET}={SECRET}",
    "te": f"trailers, {SECRET}",
}
ORDINARY = {name: value for name, value in SECRETS.items() if name != "content-encoding"}


class Told:
    """All that a picker writes down."""

    def __init__(self, picker: Picker, stream: io.StringIO) -> None:
        self.picker = picker
        self._stream = stream

    @property
    def text(self) -> str:
        now = datetime.now(UTC)
        lines = [self._stream.getvalue()]
        for record in self.picker.records.all:
            lines += json_line(record, now), console_line(record, now)
        decisions = self.picker.path.decisions
        assert decisions is not None
        for decision in decisions.last(1000):
            view = view_decision(decision, time.monotonic())
            lines.append(msgspec.json.encode(view).decode())
        return "\n".join(lines)

    def is_discreet(self) -> bool:
        """Whether the marker is nowhere; shows where it is."""
        found = [line for line in self.text.splitlines() if SECRET in line]
        assert found == []
        return True


@pytest.fixture(params=["json", "console"])
def log_format(request: pytest.FixtureRequest) -> LogFormat:
    return "json" if request.param == "json" else "console"


@asynccontextmanager
async def telling(
    log_format: LogFormat,
    config: str = "",
    own_plugins: tuple[type[Plugin], ...] = (),
    mode: FailureMode = FailureMode.FAIL_CLOSE,
) -> AsyncIterator[Told]:
    """A picker that says all it can, about requests of any kind."""
    stream = io.StringIO()
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(tell_of_fault)
    gc.freeze()  # what is there needs no look at the end
    settings = RequestPathSettings(
        director=DirectorSettings(
            log_level=LogLevelSwitch("trace"), max_request_body_bytes=100_000
        ),
        gateway=GatewaySettings(max_request_body_bytes=100_000),
    )
    try:
        with logging_as_it_was():
            configure_logging("trace", log_format, stream)
            async with running_picker(
                ("10.0.0.1:8000", "10.0.0.2:8000"),
                config=config,
                own_plugins=own_plugins,
                failure_mode=mode,
                settings=settings,
            ) as picker:
                yield Told(picker, stream)
                gc.collect()  # tasks that nobody waits for are told of when they are gone
    finally:
        gc.unfreeze()
        loop.set_exception_handler(before)


async def follow(exchange: Exchange) -> None:
    """The response of a request that may have been rejected, and the end of the stream."""
    answer = await exchange.answer()
    while answer.status is None and answer.destination is None:
        answer = await exchange.answer()
    if answer.status is None:
        await exchange.response_headers({":status": "500", "content-type": SECRET, **ORDINARY})
        await exchange.response_body(b'{"error":{"message":"s3cr3t"},"usage":"s3cr3t"')
        await exchange.response_body(b"s3cr3t", end=True)
        await exchange.half_close()
        answer = await exchange.answer()
        while not (answer.kind == "response_body" and answer.end):
            answer = await exchange.answer()
    exchange.cancel()


@pytest.mark.parametrize("config", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
@pytest.mark.parametrize("request_mode", ["FULL_DUPLEX_STREAMED", "BUFFERED"])
async def test_requests_of_every_kind(
    log_format: LogFormat, config: str, request_mode: str
) -> None:
    async with telling(log_format, config) as told:
        for number, (path, body) in enumerate(REQUESTS.values()):
            exchange = told.picker.exchange(request_mode=request_mode)
            names = {":path": path, "x-request-id": f"id-{number}"}
            await exchange.post(body, {**ORDINARY, **names})
            await follow(exchange)
        await told.picker.settled()

        assert told.is_discreet()
        assert [name for name in range(len(REQUESTS)) if f"id-{name}" not in told.text] == []


async def test_encodings_of_every_kind(log_format: LogFormat) -> None:
    async with telling(log_format) as told:
        for encoding, body in ENCODINGS.values():
            exchange = told.picker.exchange()
            await exchange.post(body, {**ORDINARY, "content-encoding": encoding})
            await follow(exchange)
        await told.picker.settled()

        assert told.is_discreet()


async def test_messages_that_are_none_and_come_out_of_turn(log_format: LogFormat) -> None:
    async with telling(log_format) as told:
        for garbage in (b"\xff" + SECRET.encode(), b"\x12\x06" + SECRET.encode()):
            exchange = told.picker.exchange(grpc_metadata=(("authorization", SECRET),))
            await exchange.send_bytes(garbage)
            await exchange.status()
        exchange = told.picker.exchange()
        await exchange.request_headers({**ORDINARY, ":path": "/v1/completions"})
        await exchange.request_headers({**ORDINARY, ":path": "/v1/completions"})
        await exchange.status()
        exchange = told.picker.exchange()
        await exchange.request_headers({**ORDINARY, ":path": "/v1/completions"})
        await exchange.request_body(SECRET.encode())
        await exchange.half_close()
        await exchange.status()
        await told.picker.settled()

        assert told.is_discreet()


@pytest.mark.parametrize("mode", list(FailureMode))
@pytest.mark.parametrize("made", [bug, rejection], ids=["bugs", "rejections"])
async def test_plugins_that_tell_what_they_were_told(
    log_format: LogFormat, mode: FailureMode, made: Callable[[], Exception]
) -> None:
    for plugin in gossips(made):
        config = f"plugins: [{{type: {plugin.type}}}, {{type: queue-scorer}}]"
        if issubclass(plugin, Parser):
            config = f"requestHandler: {{parsers: [{{pluginRef: {plugin.type}}}]}}"
        async with telling(log_format, config, (plugin,), mode) as told:
            exchange = told.picker.exchange()
            body = b'{"model":"m","prompt":"s3cr3t"}'
            await exchange.post(body, {**ORDINARY, "x-request-id": "id-1"})
            await follow(exchange)
            await told.picker.settled()

        assert told.is_discreet()
        lines = told.text.splitlines()
        faults = [line for line in lines if re.search("(plugin|phase|picking) failed", line)]
        assert [line for line in faults if "id-1" not in line] == []
        assert faults or made is rejection, plugin.type


async def test_a_stream_that_fails(log_format: LogFormat) -> None:
    async with telling(log_format, "plugins: [{type: trapper}]", (Trapper,)) as told:
        exchange = told.picker.exchange()
        body = b'{"model":"m","prompt":"s3cr3t"}'
        await exchange.post(body, {**ORDINARY, "x-request-id": "id-1"})
        assert await exchange.status() is grpc.StatusCode.INTERNAL
        await told.picker.settled()

        assert told.is_discreet()
        [line] = [line for line in told.text.splitlines() if "stream handler failed" in line]
        assert "id-1" in line
        assert "LookupError" in told.text


async def test_the_search_finds_what_is_told(log_format: LogFormat) -> None:
    async with telling(log_format) as told:
        exchange = told.picker.exchange()
        await exchange.post(b'{"model":"s3cr3t","prompt":"a"}')
        await follow(exchange)
        await told.picker.settled()

        with pytest.raises(AssertionError):
            told.is_discreet()


def test_the_headers_that_are_read_are_known() -> None:
    assert {"x-session-id", "prefer", "content-encoding", "x-prefiller-host-port"} <= set(SECRETS)
    assert json.dumps(SECRETS).count(SECRET) >= 30
