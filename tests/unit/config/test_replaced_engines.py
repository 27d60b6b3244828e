"""An engine that replaces a built-in one must not take the load away unseen."""

from __future__ import annotations

import pytest

from tests.fakes.configurations import assembled

DOCUMENT = """
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: core-metrics-extractor
  parameters: {engineConfigs: [%s]}
"""
CUSTOM = "customMetrics: [{attributeKey: speed, metricSpec: speed}]"
QUEUE = "queuedRequestsSpec: 'vllm:num_requests_waiting'"
KV_CACHE = "kvUsageSpec: 'vllm:kv_cache_usage_perc'"


def warnings_of(engine: str) -> list[str]:
    return list(assembled(DOCUMENT % engine).warnings)


def test_load_that_a_scorer_goes_by_and_nothing_reads_any_more_is_told_with_what_would() -> None:
    assert warnings_of(f"{{name: vllm, {KV_CACHE}, {CUSTOM}}}") == [
        "plugins[2].parameters.engineConfigs[0]: 'vllm' replaces the built-in engine whole; without"
        f" queuedRequestsSpec it tells 'queue-scorer' nothing. To keep that, add {QUEUE}"
    ]


def test_what_the_warnings_offer_ends_them() -> None:
    offered = [line.partition(" To keep that, add ")[2] for line in warnings_of("{name: sglang}")]

    assert len(offered) == 2
    assert warnings_of(f"{{name: sglang, {', '.join(offered)}}}") == []


@pytest.mark.parametrize(
    "engine",
    [
        f"{{name: vllm, {QUEUE}, {KV_CACHE}}}",  # nobody goes by running requests
        f"{{name: acme, {CUSTOM}}}",  # replaces nothing
        f"{{name: triton, {QUEUE}}}",  # the built-in one has no KV cache
    ],
)
def test_nothing_is_told_where_nothing_is_lost(engine: str) -> None:
    assert warnings_of(engine) == []
