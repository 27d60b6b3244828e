"""Which engine an endpoint is taken for, and what is said of it."""

from __future__ import annotations

from structlog.testing import capture_logs

from epp.plugins.extractors.engine_choice import MAX_WARNINGS, EngineChoice
from epp.plugins.extractors.engine_mappings import built_in_mappings
from epp.testing import endpoint_of

LABEL = "llm-d.ai/engine-type"


def choice() -> EngineChoice:
    return EngineChoice(LABEL, {each.name: each for each in built_in_mappings("sum")}, "vllm")


def test_an_unknown_engine_is_said_once_for_each_endpoint() -> None:
    engines = choice()

    with capture_logs() as logs:
        for name in ("e1", "e2", "e1", "e2"):
            assert engines.labelled(endpoint_of(name, labels={LABEL: "foo"})) is None

    assert [line["endpoint"] for line in logs] == ["e1-rank-0", "e2-rank-0"]
    assert {line["engine"] for line in logs} == {"foo"}


def test_the_number_of_warnings_is_bounded() -> None:
    engines = choice()

    with capture_logs() as logs:
        for index in range(MAX_WARNINGS + 10):
            engines.labelled(endpoint_of(labels={LABEL: f"foo-{index}"}))

    assert len(logs) == MAX_WARNINGS


def test_an_engine_is_told_from_the_names_of_its_metrics() -> None:
    pages = {
        b"sglang:num_queue_reqs 1\n": "sglang",
        b"# x\ntrtllm_num_requests_waiting 1\n": "trtllm-serve",
        b"nv_inference_count 1\nnv_trt_llm_request_metrics 1\n": "triton-tensorrt-llm",
        b"nv_inference_count 1\n": "triton",
        b"vllm:num_requests_waiting 1\n": None,
        b"other 1\n": None,
    }

    with capture_logs():
        found = {page: choice().shown(page, endpoint_of()) for page in pages}

    assert {page: mapping and mapping.name for page, mapping in found.items()} == pages
