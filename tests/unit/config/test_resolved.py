from __future__ import annotations

import re

import pytest

from epp.config.resolved import resolved_text
from tests.fakes.configurations import assembled

DISAGGREGATED = """\
plugins:
- {type: disagg-profile-handler, parameters: {deciderPluginName: d}}
- {type: always-disagg-pd-decider, name: d}
- {type: prefill-filter}
- {type: decode-filter}
- {type: prefix-cache-scorer, parameters: {matchLengthWeight: 0.25}}
- {type: label-selector-filter, name: l, parameters: {matchLabels: {a.b/c: d}}}
- {type: utilization-detector, parameters: {metricsStalenessThreshold: 1s}}
schedulingProfiles:
- {name: prefill, plugins: [{pluginRef: prefill-filter}]}
- {name: decode, plugins: [{pluginRef: decode-filter}, {pluginRef: l}, {pluginRef: prefix-cache-scorer, weight: 3}]}
featureGates: [haPopulateNonLeaderDatastore=false]
parser: {pluginRef: openai-parser}
"""  # noqa: E501 - YAML in one line


def without_notes(text: str) -> str:
    return re.sub(r"(?m)^# added: .*\n", "", text)


@pytest.mark.parametrize("text", ["", "# nothing", DISAGGREGATED], ids=["default", "empty", "pd"])
def test_what_is_printed_means_the_same_when_it_is_read_again(text: str) -> None:
    once = resolved_text(assembled(text))

    again = resolved_text(assembled(once))

    assert "# added: " not in again
    assert again == without_notes(once)


def test_it_shows_defaults_added_plugins_and_who_reads_what() -> None:
    text = resolved_text(assembled("plugins: [{type: prefix-cache-scorer}]"))

    assert "- name: prefix-cache-scorer\n  type: prefix-cache-scorer\n" in text
    assert "    matchLengthScaleTokens: 8192\n" in text
    assert "# added: default\n- name: max-score-picker\n" in text
    assert "# added: needed for the data it writes\n- name: approx-prefix-cache-producer\n" in text
    assert (
        "#   prefix-cache-scorer: PrefixCacheMatchInfoDataKey from approx-prefix-cache-producer\n"
        in text
    )


def test_what_is_ignored_is_not_printed() -> None:
    text = resolved_text(assembled("plugins: [{type: queue-scorer, parameters: {a: 1}}]"))

    assert "a: 1" not in text
