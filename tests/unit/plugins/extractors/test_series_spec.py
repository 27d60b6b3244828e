"""Which series a configuration means."""

from __future__ import annotations

import pytest

from epp.plugins.extractors.series_spec import parse_series_spec


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("queue", "queue"),
        (" vllm:queue ", "vllm:queue"),
        ("queue{}", "queue"),
        ("queue{a=b}", 'queue{a="b"}'),
        ('queue { a = "b c" , d=e f }', 'queue{a="b c",d="e f"}'),
        ('queue{a=""}', 'queue{a=""}'),
        ("queue{a=1.5/x}", 'queue{a="1.5/x"}'),
    ],
)
def test_specs_are_read(text: str, expected: str) -> None:
    assert str(parse_series_spec(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "1a", "a b", "a{", "a}", "a{b}", "a{b=}", "a{b=c,}", "a{b=c}d", "a{b=c,b=d}",
        'a{b="c}', 'a{b="c,d"}', "a{b=~c}", "a{b!=c}", "ä", "a{ä=b}", "a{b:c=d}",
    ],
)  # fmt: skip
def test_malformed_specs_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a metric spec.*allowed"):
        parse_series_spec(text)


def test_series_with_all_labels_are_selected() -> None:
    spec = parse_series_spec('queue{engine=1,model="a"}')
    lines = (
        b'\nqueue{engine="0",model="a"} 1\nqueue{model="a",x="y",engine="1"} 2\nqueue{engine="1"} 3'
    )

    assert [one[1] for one in spec.select(lines)] == [2.0]


def test_an_empty_value_is_met_by_a_missing_label() -> None:
    spec = parse_series_spec('queue{priority=""}')

    selected = spec.select(b'\nqueue{priority="0"} 1\nqueue{priority=""} 2\nqueue 3')

    assert [one[1] for one in selected] == [2.0, 3.0]
