"""Names that lead to an instance of another kind than is meant."""

from __future__ import annotations

import pytest

from tests.fakes.configurations import assembled, refusal


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("max-score-picker", "Picker"),
        ("single-profile-handler", "ProfileHandler"),
        ("openai-parser", "Parser"),
        ("utilization-detector", "SaturationDetector"),
    ],
)
def test_a_plugin_that_has_the_name_of_a_default_one_of_another_kind_is_refused(
    name: str, kind: str
) -> None:
    assert refusal(f"plugins: [{{type: queue-scorer, name: {name}}}]") == [
        f"plugins[0]: the name {name!r} is that of the default {kind}, which queue-scorer is not;"
        " give it a `name` of its own"
    ]


def test_a_plugin_of_the_same_kind_may_have_the_name_of_the_default_one() -> None:
    text = """
        plugins:
        - {type: queue-scorer}
        - {type: concurrency-detector, name: utilization-detector}
        - {type: random-picker, name: max-score-picker}
    """

    assembly = assembled(text)

    assert assembly.plan.saturation_detector is assembly.plugins["utilization-detector"]
    assert assembly.plugins["max-score-picker"].type == "random-picker"
