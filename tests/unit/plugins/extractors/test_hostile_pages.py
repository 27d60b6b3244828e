"""Pages that are cut, garbled, or not metrics at all."""

from __future__ import annotations

import contextlib
import math
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epp.framework.data_layer import ExtractionError, Extractor
from epp.framework.endpoint import Endpoint
from epp.plugins.extractors.core_metrics import CoreMetricsExtractor
from epp.plugins.extractors.dcgm import DcgmExtractor
from epp.plugins.extractors.models import ModelsDataExtractor
from epp.plugins.extractors.multicluster import MulticlusterMetricsExtractor
from epp.testing import built, endpoint_of

SAMPLES = {
    path.name: path.read_bytes()
    for path in sorted((Path(__file__).parents[3] / "samples" / "metrics").iterdir())
    if path.name != "vllm_v1_dp4_large.prom"
}
ENGINES = ("", "vllm", "sglang", "trtllm-serve", "triton-tensorrt-llm", "triton")
NUMBERS = (b"NaN", b"-1", b"+Inf", b"-Inf", b"1e308", b"-1e-308", b"0x1", b"1_0", b"", b"9" * 400)


def extract(by: Extractor, page: bytes, endpoint: Endpoint) -> None:
    with contextlib.suppress(ExtractionError):
        by.extract(page, endpoint, 1.0)


def check(endpoint: Endpoint) -> None:
    metrics = endpoint.metrics
    for value in (
        metrics.waiting_queue_size,
        metrics.running_requests_size,
        metrics.max_active_models,
        metrics.cache_block_size,
        metrics.cache_num_blocks,
    ):
        assert isinstance(value, int)
        assert 0 <= value < 2**64
    assert 0.0 <= metrics.kv_cache_usage <= 1.0
    for value in endpoint.state.attributes.values():
        if isinstance(value, float):
            assert math.isfinite(value)
            assert value >= 0


def extractors() -> list[Extractor]:
    return [
        built(CoreMetricsExtractor),
        built(CoreMetricsExtractor, aggregation="first"),
        built(MulticlusterMetricsExtractor),
        built(DcgmExtractor),
        built(ModelsDataExtractor),
    ]


def read_after(good: bytes, page: bytes, engine: str) -> None:
    """Whatever `page` is, the endpoint is left with values that make sense."""
    for by in extractors():
        endpoint = endpoint_of(labels={"llm-d.ai/engine-type": engine})
        extract(by, good, endpoint)
        extract(by, page, endpoint)
        check(endpoint)


@st.composite
def mutilated(draw: st.DrawFn) -> bytes:
    page = SAMPLES[draw(st.sampled_from(sorted(SAMPLES)))]
    chance = random.Random(draw(st.integers(0, 2**32)))
    for _ in range(draw(st.integers(1, 4))):
        lines = page.splitlines(keepends=True) or [b""]
        match draw(st.sampled_from(["cut", "flip", "junk", "number", "twice", "mix", "crlf"])):
            case "cut":
                page = page[: chance.randrange(len(page) + 1)]
            case "flip":
                flipped = bytearray(page)
                for _ in range(min(len(page), 20)):
                    flipped[chance.randrange(len(page))] ^= 1 << chance.randrange(8)
                page = bytes(flipped)
            case "junk":
                at = chance.randrange(len(page) + 1)
                page = page[:at] + draw(st.binary(max_size=50)) + page[at:]
            case "number":
                at = chance.randrange(len(lines))
                lines[at] = lines[at].rpartition(b" ")[0] + b" " + chance.choice(NUMBERS) + b"\n"
                page = b"".join(lines)
            case "twice":
                page = page + page
            case "mix":
                chance.shuffle(lines)
                page = b"".join(lines)
            case "crlf":
                page = page.replace(b"\n", b"\r\n")
    return page


@settings(deadline=None)
@given(good=st.sampled_from(sorted(SAMPLES)), page=mutilated(), engine=st.sampled_from(ENGINES))
def test_mutilated_pages_leave_only_sensible_values(good: str, page: bytes, engine: str) -> None:
    read_after(SAMPLES[good], page, engine)


@settings(deadline=None)
@given(page=st.binary(max_size=300), engine=st.sampled_from(ENGINES))
def test_junk_leaves_only_sensible_values(page: bytes, engine: str) -> None:
    read_after(SAMPLES["vllm_v1_lora.prom"], page, engine)


@pytest.mark.parametrize("name", ["vllm_v1_lora.prom", "sglang_unified.prom", "edge_format.prom"])
def test_a_page_may_be_cut_at_any_byte(name: str) -> None:
    page, by = SAMPLES[name], built(CoreMetricsExtractor)
    endpoint = endpoint_of()

    for end in range(len(page)):
        extract(by, page[:end], endpoint)
        check(endpoint)


@pytest.mark.parametrize("number", NUMBERS)
def test_no_number_of_a_page_poisons_an_endpoint(number: bytes) -> None:
    for name, page in SAMPLES.items():
        garbled = b"\n".join(
            line if line.startswith(b"#") else line.rpartition(b" ")[0] + b" " + number
            for line in page.split(b"\n")
        )
        for engine in ENGINES:
            read_after(SAMPLES[name], garbled, engine)
