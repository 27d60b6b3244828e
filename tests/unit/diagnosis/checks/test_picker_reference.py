from __future__ import annotations

from typing import Any

import pytest

from epp.diagnosis.checks.permissions import look_at_permissions
from epp.diagnosis.checks.picker_reference import look_at_picker_reference
from tests.fakes.doctor_cases import doctor_case

IN_CLUSTER = {"pool_file": None, "pool_name": "pool"}


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ({}, "no pool of a cluster is asked for"),
        (IN_CLUSTER, "the API server can't be asked"),
    ],
    ids=["pool file", "API server away"],
)
async def test_what_only_a_cluster_knows_is_skipped_for_the_reason_that_there_is_none(
    flags: dict[str, Any], why: str
) -> None:
    for look in (look_at_picker_reference, look_at_permissions):
        (finding,) = await look(doctor_case(**flags))

        assert finding.found == why
