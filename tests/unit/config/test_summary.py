from __future__ import annotations

from epp.config.summary import profile_lines
from tests.fakes.configurations import assembled


def test_each_profile_is_told_with_its_plugins_and_what_scorers_weigh() -> None:
    assert profile_lines(assembled("").blueprint) == [
        "profile default: queue-scorer x2, kv-cache-utilization-scorer x2, prefix-cache-scorer x3,"
        " max-score-picker"
    ]


def test_a_long_list_of_plugins_stays_short() -> None:
    names = [f"q{number}" for number in range(20)]
    plugins = ", ".join(f"{{type: queue-scorer, name: {name}}}" for name in names)
    references = ", ".join(f"{{pluginRef: {name}}}" for name in names)
    text = f"plugins: [{plugins}]\nschedulingProfiles: [{{name: a, plugins: [{references}]}}]"

    (line,) = profile_lines(assembled(text).blueprint)

    assert line.startswith("profile a: q0 x1, q1 x1, ")
    assert line.endswith("q7 x1, and 13 more plugins")
