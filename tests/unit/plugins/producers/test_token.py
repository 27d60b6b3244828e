"""The token producer, from a body to tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import xxhash
from pydantic import ValidationError

from epp.framework.data_types import TOKENIZED_PROMPT, TokenizedPrompt
from epp.framework.errors import ConfigError
from epp.framework.parsed_request import MultiModalFeature, ParsedRequest
from epp.framework.plugin import Stability
from epp.framework.request import InferenceRequest
from epp.plugins.parsers.openai import OpenAIParser
from epp.plugins.producers.token import Tokenizer, TokenProducer, TokenProducerParameters
from epp.testing import FakeContext, built, request_of

SAMPLES = Path(__file__).parents[3] / "samples" / "requests"
KEY = TOKENIZED_PROMPT.key("token-producer")


def request(
    body: dict[str, Any], path: str = "/v1/chat/completions", **headers: str
) -> InferenceRequest:
    parsed = OpenAIParser().parse_request(path, json.dumps(body).encode())
    return request_of(
        parsed=parsed, headers={k.replace("_", "-"): value for k, value in headers.items()}
    )


def produced(
    asked: InferenceRequest, parameters: Mapping[str, Any] | None = None
) -> TokenizedPrompt:
    producer = TokenProducer(
        TokenProducerParameters.model_validate(parameters or {}), FakeContext("token-producer")
    )
    producer.produce(asked, [])
    tokenized = asked.attributes[KEY]
    assert isinstance(tokenized, TokenizedPrompt)
    return tokenized


def chat(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(parts)}]}


def test_four_bytes_of_text_are_a_token() -> None:
    tokenized = produced(request({"prompt": ["abcdefgh", "üa", ""]}, "/v1/completions"))

    assert [prompt.tokens for prompt in tokenized.prompts] == [b"abcdefgh", b"\xc3\xbca\0", b""]
    assert tokenized.count == 3


def test_token_ids_of_the_client_are_counted() -> None:
    tokenized = produced(request({"prompt": [[1, 2], [3]]}, "/v1/completions"))

    assert [prompt.count for prompt in tokenized.prompts] == [2, 1]


def test_the_cache_salt_goes_along() -> None:
    assert produced(request({"prompt": "a", "cache_salt": "s"}, "/v1/completions")).cache_salt == (
        "s"
    )


def test_media_start_at_a_token_and_are_runs_of_their_hash() -> None:
    url = "https://images.example.com/a.png"
    digest = xxhash.xxh64_intdigest(url.encode(), seed=0)

    (prompt,) = produced(
        request(chat({"text": "a"}, {"image_url": {"url": url}}, {"text": "bcdef"}))
    ).prompts

    run = (digest & 0xFFFFFFFF).to_bytes(4, "little") * 225
    assert prompt.tokens == b"usera\0\0\0" + run + b"bcdef\0\0\0"
    assert prompt.features == (MultiModalFeature("image", f"{digest:016x}", 2, 225),)


def test_the_size_of_an_inline_image_counts() -> None:
    body = json.loads((SAMPLES / "chat_image_base64.json").read_bytes())

    (prompt,) = produced(
        request(body), {"estimate": {"image": {"dynamic": {"factor": 16}}}}
    ).prompts

    assert [feature.length for feature in prompt.features] == [8 * 8 // 16]


def test_headers_tell_of_videos() -> None:
    body = chat({"video_url": {"url": "https://v"}})

    (prompt,) = produced(request(body, x_llm_d_video_duration_seconds="3")).prompts

    assert prompt.features[0].length == 3 * 2 * 225


@pytest.mark.parametrize(
    "parsed", [None, ParsedRequest(api="")], ids=["without a body", "without a prompt"]
)
def test_a_request_that_was_not_read_has_no_tokens(parsed: ParsedRequest | None) -> None:
    asked = request_of()
    asked.parsed = parsed

    built(TokenProducer).produce(asked, [])

    assert asked.attributes == {}


def test_tokens_go_when_the_body_goes() -> None:
    asked = request({"prompt": "a"}, "/v1/completions")
    produced(asked)

    asked.let_go_of_body()

    assert KEY not in asked.attributes


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"vllm": {}}, "vllm"),
        ({"vllm": {"url": "http://a", "timeout": "5s"}, "modelName": "m"}, "vllm"),
        ({"modelName": "m"}, "modelName"),
        ({"modelName": "m", "estimate": {}}, "modelName"),
        ({"udsTokenizerConfig": {"socketFile": "/a"}}, "udsTokenizerConfig"),
    ],
)
def test_other_backends_are_refused(parameters: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=rf"parameters\.{field}: .* not available in this ver"):
        TokenProducer(
            TokenProducerParameters.model_validate(parameters), FakeContext("token-producer")
        )


@pytest.mark.parametrize(
    "parameters",
    [
        {"estimate": {"image": {"mode": "other"}}},
        {"estimate": {"image": {"factor": 5}}},
        {"estimate": {"video": {"frames": {"mode": "dynamic"}}}},
        {"estimate": {"audio": {}}},
        {"tokenizer": {}},
    ],
)
def test_unknown_modes_and_names_are_mistakes(parameters: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        TokenProducerParameters.model_validate(parameters)


def test_every_parameter_of_the_reference_is_known() -> None:
    pixels = {"width": 1280, "height": 720}
    estimate = {
        "image": {
            "mode": "static",
            "defaultResolution": pixels,
            "static": {"staticToken": 256},
            "dynamic": {"factor": 784},
        },
        "video": {
            "defaultResolution": pixels,
            "defaultDuration": 3.5,
            "tokensPerFrame": {
                "mode": "static",
                "static": {"numTokensPerFrame": 296},
                "dynamic": {"factor": 784},
            },
            "frames": {
                "mode": "strided",
                "minFrames": 1,
                "maxFrames": 8,
                "sampled": {"sampleFPS": 1, "temporalPatchSize": 2},
                "strided": {"defaultSourceFPS": 30.0, "frameStride": 4},
            },
            "maxVideoTokens": 1000,
        },
    }

    parameters = TokenProducerParameters.model_validate({"estimate": estimate})

    assert parameters.model_dump(by_alias=True, exclude_unset=True) == {"estimate": estimate}


def test_the_former_name_says_what_replaced_it() -> None:
    assert built(Tokenizer).type == "tokenizer"
    assert (Tokenizer.stability, Tokenizer.replaced_by) == (Stability.DEPRECATED, "token-producer")
