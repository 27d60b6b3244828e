from __future__ import annotations

import random

from epp.datastore.inference_pool import FailureMode
from epp.datastore.snapshot import Snapshot
from epp.framework.headers import Headers
from epp.framework.request import TerminationCause
from epp.observability.metrics import Metrics
from epp.request_control.active_request import ActiveRequest
from epp.request_control.candidates import Candidates
from epp.request_control.failure_answers import FailureAnswers
from epp.request_control.incoming import IncomingRequest, new_request
from epp.request_control.outliers import OutlierMemory, OutlierSettings
from epp.testing import endpoint_of
from tests.fakes.plugins.hooks import Runner

POOL = tuple(endpoint_of(f"e{number}") for number in (1, 2))
SETTINGS = OutlierSettings(consecutive_errors=1, first_ejection=5.0)


class FailOpen:
    """Best-effort picks from a pool whose outliers are remembered, on a clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._rng = random.Random(1)
        metrics, snapshot = Metrics(), Snapshot(endpoints=POOL)
        self.outliers = OutlierMemory(metrics, lambda: POOL, SETTINGS, lambda: self.now)
        self._answers = FailureAnswers(
            Candidates(self.outliers, use_subset=True),
            self.outliers,
            lambda: snapshot,
            forced_mode=FailureMode.FAIL_OPEN,
            metrics=metrics,
            on_end=lambda _, __: None,
            rng=self._rng,
        )

    def pick(self) -> ActiveRequest:
        incoming = IncomingRequest(headers=Headers(), received_at=self.now)
        request = new_request(incoming, self._rng)
        return self._answers.best_effort(incoming, request, Runner().run.response, "internal")


def test_a_best_effort_pick_is_the_only_probe_of_an_endpoint_whose_ejection_is_over() -> None:
    path = FailOpen()
    first = path.pick()
    path.outliers.ended(first.endpoints[0], 503)
    first.end(TerminationCause.NATURAL)
    other = path.pick()
    path.now += 6

    probe, *others = [path.pick() for _ in range(4)]

    assert probe.endpoints == first.endpoints
    assert {each.endpoints for each in others} == {other.endpoints}
