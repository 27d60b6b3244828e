from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.datastore.inference_pool import FailureMode
from epp.diagnosis.checks.envoy import look_at_gateway
from epp.diagnosis.doctor_findings import Finding
from epp.diagnosis.doctor_table import doctor_table
from tests.fakes.doctor_cases import bootstrap, doctor_case, pool_with

Place = tuple[Any, ...]
ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    1e308,
    "",
    "\x1b[31m",
    "99s",
    "nans",
    [],
    [1],
    [[]],
    {},
    {"@type": 5},
)
ROUTE = (
    *("static_resources", "listeners", 0, "filter_chains", 0, "filters", 0, "typed_config"),
    *("route_config", "virtual_hosts", 0, "routes", 0, "route"),
)


def places(part: Any, here: Place = ()) -> Iterator[Place]:
    """Where anything stands in a document."""
    inside = part.items() if isinstance(part, dict) else enumerate(part)
    for key, value in inside:
        yield (*here, key)
        if isinstance(value, dict | list):
            yield from places(value, (*here, key))


def with_odd(place: Place, value: Any) -> Any:
    document: Any = bootstrap(fail_open=False)
    part = document
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    return document


def judged(document: Any, folder: Path) -> list[Finding]:
    path = folder / "dump.json"
    path.write_text(json.dumps(document))
    case = doctor_case(envoy_config_dump=path)
    case.pool = pool_with(FailureMode.FAIL_CLOSE)
    return list(asyncio.run(look_at_gateway(case)))


@given(place=st.sampled_from(list(places(bootstrap(fail_open=False)))), value=st.sampled_from(ODD))
def test_whatever_stands_in_a_dump_is_judged_in_plain_words(
    tmp_path_factory: pytest.TempPathFactory, place: Place, value: Any
) -> None:
    findings = judged(with_odd(place, value), tmp_path_factory.mktemp("dump", numbered=True))

    assert findings
    assert "\x1b" not in doctor_table(findings)


@pytest.mark.parametrize("cluster", [[], {}, [1], 5, None])
def test_a_route_whose_cluster_is_no_name_leads_nowhere(tmp_path: Path, cluster: object) -> None:
    findings = judged(with_odd((*ROUTE, "cluster"), cluster), tmp_path)

    assert findings
