"""Numbers computed from usage, told to the gateway."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from pydantic import ValidationError

from epp.framework.errors import ConfigError
from epp.framework.headers import Headers
from epp.framework.request import InferenceResponse
from epp.framework.usage import Usage
from epp.plugins.request_hooks.request_attribute_reporter import RequestAttributeReporter
from epp.testing import built, request_of


def reporter(expression: str, condition: str = "", **key: str) -> RequestAttributeReporter:
    attribute = {
        "key": {"name": "cost", **key},
        "expression": expression,
        "condition": condition,
    }
    return built(RequestAttributeReporter, attributes=[attribute])


def told(made: RequestAttributeReporter, usage: Usage | None) -> Any:
    response = InferenceResponse(headers=Headers(), status=200, streaming=False, usage=usage)
    return made.response_metadata(request_of(), response)


V28 = Usage(prompt_tokens=7, completion_tokens=10, total_tokens=17)


@pytest.fixture
def cel() -> Any:
    return pytest.importorskip("cel")


@pytest.mark.usefixtures("cel")
class TestWithTheLibrary:
    @pytest.mark.parametrize(
        ("expression", "value"),
        [
            pytest.param("usage.completion_tokens", 10, id="V33"),
            ("usage.prompt_tokens + usage.completion_tokens", 17),
            ("has(usage.prompt_tokens) ? usage.prompt_tokens * 2 : 0", 14),
            ("has(usage.cached_tokens) ? 1 : 2", 2),
            ("usage.prompt_tokens * 2.5", 17),
            ("double(usage.total_tokens) / 2.0", 8),
            ("usage.prompt_tokens - usage.completion_tokens", -3),
        ],
    )
    def test_the_expression_gives_a_whole_number(self, expression: str, value: int) -> None:
        assert told(reporter(expression), V28) == {"envoy.lb": {"cost": value}}

    def test_namespace_and_name_are_those_configured(self) -> None:
        made = reporter("usage.total_tokens", namespace="acme", name="tokens")

        assert told(made, V28) == {"acme": {"tokens": 17}}
        assert told(reporter("usage.total_tokens", namespace=""), V28) == {"envoy.lb": {"cost": 17}}

    @pytest.mark.parametrize(
        ("expression", "usage"),
        [
            ("usage.completion_tokens", Usage(completion_tokens=0)),
            ("usage.completion_tokens", Usage(prompt_tokens=7)),
            ("usage.completion_tokens", Usage()),
            ("usage.completion_tokens", None),
            ("double(usage.completion_tokens) / 100.0", V28),
        ],
        ids=["zero", "not reported", "nothing reported", "no usage", "less than one"],
    )
    def test_nothing_is_told_when_there_is_nothing_to_tell(
        self, expression: str, usage: Usage | None
    ) -> None:
        assert told(reporter(expression), usage) == {}

    @pytest.mark.parametrize(
        ("condition", "is_told"),
        [
            ("usage.completion_tokens > 9", True),
            ("usage.completion_tokens > 10", False),
            ("has(usage.cached_tokens)", False),
            ("usage.cached_tokens > 0", False),
        ],
    )
    def test_a_condition_must_hold(self, condition: str, is_told: bool) -> None:
        made = reporter("usage.completion_tokens", condition)

        assert bool(told(made, V28)) is is_told

    def test_an_error_in_the_middle_of_it_is_raised_to_who_counts_it(self) -> None:
        made = reporter("usage.completion_tokens / (usage.prompt_tokens - 7)")

        with pytest.raises(ZeroDivisionError):
            told(made, V28)

    def test_a_result_that_is_no_number_is_raised_too(self) -> None:
        made = reporter("usage.prompt_tokens == 7 ? 'x' : 1")

        with pytest.raises(TypeError, match="gave a str"):
            told(made, V28)

    @pytest.mark.parametrize(
        ("expression", "complaint"),
        [
            ("usage.", "is not a CEL expression"),
            ("usage.prompt_tokens +", "is not a CEL expression"),
            ("(" * 400 + "1" + ")" * 400, "is not a CEL expression"),
            ("tokens + 1", "names tokens; allowed: usage"),
            ("usage.tokens", "reads usage.tokens; allowed: prompt_tokens"),
            ("cost(1)", "can't be evaluated"),
            ("usage.prompt_tokens > 1", "gives a bool; allowed: int or float"),
            ("'a'", "gives a str"),
            ("usage.prompt_tokens + 'a'", "can't be evaluated"),
            ("[1, 2].map(x, x)", r"calls \.map\(\)"),
            ("usage . all (k, true)", r"calls \.all\(\)"),
            ("1" + " + 1" * 250, "has 1001 characters; allowed: at most 1000"),
        ],
    )
    def test_a_mistake_in_an_expression_ends_the_start(
        self, expression: str, complaint: str
    ) -> None:
        with pytest.raises(ConfigError, match=rf"attributes\[0\]\.expression {complaint}"):
            reporter(expression)

    def test_a_condition_must_be_a_claim(self) -> None:
        with pytest.raises(ConfigError, match=r"condition gives a int; allowed: bool"):
            reporter("usage.prompt_tokens", "usage.prompt_tokens")


def test_without_the_library_the_start_ends_with_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cel", None)

    with pytest.raises(ConfigError, match="pip install common-expression-language"):
        reporter("usage.completion_tokens")


@pytest.mark.parametrize("number", [0, 2])
def test_exactly_one_attribute_is_reported(number: int) -> None:
    attribute = {"key": {"name": "cost"}, "expression": "1"}

    with pytest.raises(ValidationError, match="attributes"):
        built(RequestAttributeReporter, attributes=[attribute] * number)


@pytest.mark.parametrize(
    "attribute", [{"key": {"name": ""}, "expression": "1"}, {"expression": "1"}]
)
def test_an_attribute_needs_a_name(attribute: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        built(RequestAttributeReporter, attributes=[attribute])
