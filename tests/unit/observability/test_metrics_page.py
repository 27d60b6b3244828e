from __future__ import annotations

from pathlib import Path

from epp.observability.metric_catalogue import CATALOGUE
from epp.observability.metrics_page import metrics_page

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_the_page_is_the_one_the_catalogue_gives() -> None:
    assert PAGE.read_text() == metrics_page(), (
        "run: python -m epp.observability.metrics_page > docs/metrics.md"
    )


def test_no_two_metrics_have_the_same_name() -> None:
    names = [spec.name for section in CATALOGUE for spec in section.metrics]
    twins = [
        spec.twin.name for section in CATALOGUE for spec in section.metrics if spec.twin is not None
    ]

    assert len(set(names + twins)) == len(names) + len(twins)


def test_every_help_text_starts_with_its_stability() -> None:
    for section in CATALOGUE:
        for spec in section.metrics:
            assert spec.help.startswith("[ALPHA] "), spec.name
