from __future__ import annotations

from xml.etree import ElementTree

from tests.benchmarks.bar_chart import bar_chart


def test_bars_are_as_long_as_their_medians_relative_to_the_longest() -> None:
    chart = bar_chart("us <&>", ["ours", "theirs"], {"1 KB": [[100, 90, 500], [200, 200, 200]]})

    rectangles = ElementTree.fromstring(chart).findall("{http://www.w3.org/2000/svg}rect")
    short, long = (float(each.attrib["width"]) for each in rectangles[-2:])
    assert short == long / 2
