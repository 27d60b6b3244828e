from __future__ import annotations

from typing import Any

from epp.admin.pool_view import PoolView, view_pool
from epp.cli.pool_table import pool_table
from epp.datastore.datastore import Datastore
from epp.datastore.inference_pool import FailureMode
from epp.framework.endpoint import EndpointMetrics
from tests.fakes.pool import pod_of, pool_of


def view(datastore: Datastore, **changes: Any) -> PoolView:
    arguments: dict[str, Any] = {
        "failure_mode": FailureMode.FAIL_CLOSE,
        "not_ready_reasons": [],
        "problems": [],
        "unmatched": datastore.explanations(),
    }
    return view_pool(datastore.snapshot(), **arguments | changes)


def datastore_with_pods() -> Datastore:
    datastore = Datastore()
    datastore.set_pool(pool_of(8000, 8001, match_labels={"app": "llama", "gpu": "h100"}))
    datastore.set_pods([pod_of("a", "10.0.0.1"), pod_of("long-name", "10.0.0.2", ready=False)])
    return datastore


def test_a_pool_is_shown_with_its_endpoints_and_why_pods_have_none() -> None:
    assert pool_table(view(datastore_with_pods()), has_load=False) == (
        "pool          default/pool\n"
        "selector      app=llama,gpu=h100\n"
        "target ports  8000, 8001\n"
        "app protocol  http\n"
        "failure mode  FailClose\n"
        "ready         yes\n"
        "\n"
        "ENDPOINT       NAME\n"
        "10.0.0.1:8000  default/a-rank-0\n"
        "10.0.0.1:8001  default/a-rank-1\n"
        "\n"
        "POD WITHOUT ENDPOINT  REASON\n"
        "default/long-name     not ready\n"
    )


def test_a_running_picker_shows_its_load() -> None:
    datastore = datastore_with_pods()
    datastore.snapshot().endpoints[0].load.in_flight = 3

    text = pool_table(view(datastore), has_load=True)

    assert "ENDPOINT       NAME              IN FLIGHT  RECENT PICKS  WAITING" in text
    assert "10.0.0.1:8000  default/a-rank-0  3          0             -" in text


def test_a_running_picker_shows_what_model_servers_said_and_when() -> None:
    datastore = datastore_with_pods()
    fresh, stale = datastore.snapshot().endpoints
    fresh.state.metrics = EndpointMetrics(
        waiting_queue_size=2, running_requests_size=17, kv_cache_usage=0.419, updated_at=99.95
    )
    stale.state.metrics = EndpointMetrics(updated_at=40.0)
    stale.state.is_stale = True

    rows = pool_table(view(datastore, now=100.0), has_load=True).splitlines()

    assert any(row.endswith("2        17       42%       0.1s") for row in rows)
    assert any(row.endswith("0        0        0%        60.0s (stale)") for row in rows)


def test_a_running_picker_shows_what_is_ejected() -> None:
    datastore = datastore_with_pods()
    unheard, stale = datastore.snapshot().endpoints
    stale.state.metrics = EndpointMetrics(updated_at=40.0)
    stale.state.is_stale = True

    seen = view(datastore, now=100.0, is_ejected={unheard, stale}.__contains__)

    rows = pool_table(seen, has_load=True).splitlines()
    assert any(row.endswith("-        -        -         - (ejected)") for row in rows)
    assert any(row.endswith("60.0s (stale, ejected)") for row in rows)


def test_without_a_pool_there_are_reasons_and_problems() -> None:
    nothing = view(
        Datastore(), not_ready_reasons=["one", "another"], problems=["not valid:\n  spec.x: wrong"]
    )

    assert pool_table(nothing, has_load=False) == (
        "failure mode  FailClose\n"
        "ready         no: one; another\n"
        "problem       not valid:\n"
        "                spec.x: wrong\n"
        "\n"
        "no endpoint: every request is answered with 503\n"
    )


def test_a_failure_mode_that_is_not_the_pools_says_where_it_comes_from() -> None:
    datastore = Datastore()
    datastore.set_pool(pool_of(8000, failure_mode=FailureMode.FAIL_CLOSE))

    text = pool_table(view(datastore, failure_mode=FailureMode.FAIL_OPEN), has_load=False)

    assert "failure mode  FailOpen (by --failure-mode; the pool says FailClose)\n" in text


def test_escape_sequences_never_reach_the_terminal() -> None:
    datastore = Datastore()
    datastore.set_pool(pool_of(8000, name="\x1b[31m"))
    datastore.set_pods([pod_of("\x1b[31m"), pod_of("\x1b[32m", ready=False)])

    text = pool_table(view(datastore, problems=["\x1b[33m"]), has_load=True)

    assert "\x1b" not in text
