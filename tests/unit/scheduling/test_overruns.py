from __future__ import annotations

from structlog.testing import capture_logs

from epp.scheduling.overruns import MOST_IN_A_ROW, Overruns
from epp.testing import request_of
from tests.fakes.plugins.hooks import Anything


def test_lines_on_what_takes_too_long_name_the_request_it_was_for() -> None:
    overruns = Overruns(lambda _type, _name: None)
    plugin = Anything()

    with capture_logs() as logs:
        for number in range(MOST_IN_A_ROW):
            overruns.took(plugin, 2.0, 1.0, request_of(request_id=f"r{number}"))

    assert [(line["event"], line["request_id"]) for line in logs] == [
        ("plugin holds up all requests", "r0"),
        ("plugin switched off: its calls take too long", f"r{MOST_IN_A_ROW - 1}"),
    ]
    assert overruns.is_off(plugin)
