"""Requests without a prompt go through plugins that would like to have one."""

from __future__ import annotations

import pytest

from epp.config.built_in import BUILT_IN
from tests.fakes.pickers.gateway_client import COMPLETIONS, Exchange
from tests.fakes.pickers.picker import running_picker

ONE, TWO = "10.0.0.1:8000", "10.0.0.2:8000"
EVERYTHING = """
plugins:
- {type: approx-prefix-cache-producer}
- {type: inflight-load-producer, parameters: {addEstimatedOutputTokens: true}}
- {type: agent-identity}
- {type: session-affinity-filter}
- {type: prefix-cache-affinity-filter}
- {type: utilization-filter, parameters: {conditions: [{metric: active-requests, maxValue: 9}]}}
- {type: session-affinity-scorer}
- {type: prefix-cache-scorer}
- {type: no-hit-lru-scorer}
- {type: context-length-aware}
- {type: mm-embeddings-cache-scorer}
- {type: queue-scorer}
- {type: running-requests-size-scorer}
- {type: kv-cache-utilization-scorer}
- {type: lora-affinity-scorer}
- {type: load-aware-scorer}
- {type: active-request-scorer}
- {type: token-load-scorer}
- {type: weighted-random-picker}
"""
STAGED = """
plugins:
- {type: prefix-based-pd-decider}
- {type: disagg-profile-handler, parameters: {deciders: {prefill: prefix-based-pd-decider}}}
- {type: prefix-cache-scorer}
schedulingProfiles:
- {name: prefill, plugins: [{pluginRef: prefix-cache-scorer}]}
- {name: decode, plugins: [{pluginRef: prefix-cache-scorer}]}
"""
CONFIGS = pytest.mark.parametrize(
    "config", [BUILT_IN, EVERYTHING, STAGED], ids=["default", "everything", "staged"]
)


async def get_models(exchange: Exchange) -> None:
    await exchange.request_headers(
        {**COMPLETIONS, ":method": "GET", ":path": "/v1/models"}, end=True
    )


async def post_raw(exchange: Exchange) -> None:
    await exchange.post(b"\x00raw \xff bytes", {":path": "/v2/infer"})


async def post_nothing(exchange: Exchange) -> None:
    await exchange.post(b"", {":path": "/v2/infer"})


async def post_media_alone(exchange: Exchange) -> None:
    image = b'{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}'
    message = b'{"role":"user","content":[%s]}' % image
    await exchange.post(
        b'{"model":"m","messages":[%s]}' % message, {":path": "/v1/chat/completions"}
    )


async def post_null_content(exchange: Exchange) -> None:
    messages = b'[{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]},{"role":"tool"}]'
    await exchange.post(
        b'{"model":"m","messages":%s}' % messages, {":path": "/v1/chat/completions"}
    )


async def post_count_tokens(exchange: Exchange) -> None:
    await exchange.post(b"{}", {":path": "/v1/messages/count_tokens"})


@CONFIGS
@pytest.mark.parametrize(
    "send",
    [get_models, post_raw, post_nothing, post_media_alone, post_null_content, post_count_tokens],
)
async def test_a_request_without_a_prompt_is_routed_and_counts_no_error(
    config: str, send: object
) -> None:
    async with running_picker((ONE, TWO), config=config) as picker:
        exchange = picker.exchange()
        assert callable(send)
        await send(exchange)
        head = await exchange.answer()
        assert head.destination in (ONE, TWO)
        if send is not get_models:
            body = await exchange.answer()
            assert body.end
        if send is not post_count_tokens:
            await exchange.response_headers({":status": "200", "content-type": "application/json"})
            assert (await exchange.answer()).kind == "response_headers"
            await exchange.response_body(b"{}", end=True)
            assert (await exchange.answer()).end
            await exchange.half_close()
        assert (await exchange.status()).name == "OK"
        await picker.settled()
        assert picker.faults == 0
        assert picker.metric("llm_d_epp_request_error_total") == 0
        assert picker.metric("epp_fail_open_total") == 0
        assert picker.metric("epp_request_terminations_total", cause="natural") == 1


@CONFIGS
async def test_without_a_prompt_no_cache_is_available(config: str) -> None:
    async with running_picker((ONE, TWO), config=config) as picker:
        exchange = picker.exchange()
        headers = {":method": "GET", ":path": "/v1/models", "prefer": "if-available"}
        await exchange.request_headers({**COMPLETIONS, **headers}, end=True)
        assert (await exchange.answer()).status == 412
        await picker.settled()
