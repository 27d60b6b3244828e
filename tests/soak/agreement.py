"""Whether a picker's series tell what its clients have seen."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tests.fakes.metrics.samples import sum_of
from tests.soak.deck import DECK
from tests.soak.ledger import DISCONNECT, Ledger


def agrees(page: str, ledger: Ledger) -> None:
    """Fail where they do not. All streams have ended."""
    assert set(ledger.ways) >= set(DECK), "a way was never gone"
    terminations = series(page, "epp_request_terminations_total", "cause")
    unclear = terminations.pop((DISCONNECT,)) - ledger.terminations[DISCONNECT]
    assert 0 <= unclear <= ledger.unclear
    expected = {(cause,): n for cause, n in ledger.terminations.items() if cause != DISCONNECT}
    assert {cause: n for cause, n in terminations.items() if n} == expected
    assert rejections(page) == ledger.rejections
    ended = sum_of(page, "epp_request_terminations_total")
    assert sum_of(page, "llm_d_epp_request_total") == ended - ledger.without_body
    for outcome in ("success", "failure"):
        assert series(page, "epp_pool_reloads_total", "outcome")[outcome,] > 0
        assert series(page, "epp_config_reloads_total", "outcome")[outcome,] > 0
    assert sum_of(page, "epp_endpoint_ejections_total") > 0
    assert sum_of(page, "llm_d_epp_datalayer_poll_errors_total") > 0
    for name in ("gauge_underflows", "response_phase_errors", "plugin_errors", "fail_open"):
        assert sum_of(page, f"epp_{name}_total") == 0, name


def rejections(page: str) -> dict[tuple[str, str], float]:
    """What was rejected, by status and details."""
    return {
        (code, "epp_" + reason.replace("-", "_")): count
        for (code, reason), count in series(
            page, "epp_requests_rejected_total", "code", "reason"
        ).items()
    }


def series(page: str, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """The values of a family, by some labels."""
    return {
        tuple(each.labels[label] for label in labels): each.value
        for family in text_string_to_metric_families(page)
        for each in family.samples
        if each.name == name
    }
