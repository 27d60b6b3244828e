"""Parameters of the extractor of metrics."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import replace
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from epp.plugins.extractors.core_metrics import CoreMetricsExtractor
from epp.plugins.extractors.core_metrics_parameters import CoreMetricsParameters
from epp.plugins.extractors.engine_mappings import EngineMapping, built_in_mappings
from epp.plugins.extractors.signals import Signal


def parameters(**values: Any) -> CoreMetricsParameters:
    return CoreMetricsParameters.model_validate_json(json.dumps(values))


def test_the_built_in_engines_are_there_beside_those_of_the_user() -> None:
    mappings = parameters(engineConfigs=[{"name": "mine"}]).mappings()

    assert set(mappings) == {
        "vllm", "sglang", "trtllm-serve", "triton-tensorrt-llm", "triton", "mine"
    }  # fmt: skip


def test_an_engine_may_have_an_aggregation_of_its_own() -> None:
    mappings = parameters(
        aggregation="first", engineConfigs=[{"name": "mine", "aggregation": "sum"}]
    ).mappings()

    assert (mappings["vllm"].aggregation, mappings["mine"].aggregation) == ("first", "sum")


CUSTOM = {"attributeKey": "a", "metricSpec": "m"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"engineConfigs": [{"name": ""}]}, "at least 1 character"),
        ({"engineConfigs": [{"name": "default"}]}, "reserved"),
        ({"engineConfigs": [{"name": "a"}, {"name": "a"}]}, "'a' is there 2 times"),
        ({"defaultEngine": "vlm"}, "'vlm' is not an engine; allowed: sglang, triton"),
        ({"engineConfigs": [{"name": "a", "loraSpec": "a{b"}]}, "not a metric spec"),
        ({"engineConfigs": [{"name": "a", "customMetrics": [CUSTOM, CUSTOM]}]}, "attributeKey 'a'"),
        (
            {"engineConfigs": [{"name": "a", "customMetrics": [{**CUSTOM, "attributeKey": ""}]}]},
            "at least 1 character",
        ),
        (
            {"engineConfigs": [{"name": "a", "customMetrics": [{**CUSTOM, "metricSpec": ""}]}]},
            "at least 1 character",
        ),
        ({"aggregation": "median"}, "'sum' or 'first'"),
        ({"engineLabelKey": ""}, "at least 1 character"),
    ],
)
def test_mistakes_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        parameters(**values)


def test_the_engines_of_the_documentation_are_the_built_in_ones() -> None:
    text = inspect.getdoc(CoreMetricsExtractor) or ""
    (shown,) = re.findall(r"^    engineConfigs:\n(?:    .*\n)+", text, re.M)
    documented = parameters(**yaml.safe_load(shown)).engine_configs

    assert [as_documented(each) for each in built_in_mappings("sum")] == [
        each.mapping("sum") for each in documented
    ]


def as_documented(mapping: EngineMapping) -> EngineMapping:
    """Without what a configuration can't say: former names, and ranks that report the same."""

    def plain(signal: Signal | None) -> Signal | None:
        return signal and replace(signal, specs=signal.specs[:1], engine_label=b"")

    return replace(
        mapping,
        waiting=plain(mapping.waiting),
        running=plain(mapping.running),
        kv_usage=plain(mapping.kv_usage),
        num_blocks=plain(mapping.num_blocks),
    )
