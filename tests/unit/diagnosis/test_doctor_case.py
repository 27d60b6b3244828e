from __future__ import annotations

from typing import Any

import pytest

from epp.diagnosis.doctor_case import Case, PickerReference
from epp.diagnosis.doctor_options import HostPort
from tests.fakes.doctor_cases import doctor_case

SERVICE = PickerReference(kind="Service", name="epp", port=9102)


def in_cluster(reference: PickerReference | None, **parts: Any) -> Case:
    case = doctor_case(pool_file=None, pool_name="pool", pool_namespace="models", **parts)
    case.reference = reference
    return case


@pytest.mark.parametrize(
    ("case", "picker"),
    [
        (doctor_case(), "127.0.0.1:9002"),
        (doctor_case(bind_address="::1", grpc_port=9), "[::1]:9"),
        (in_cluster(SERVICE), None),
        (in_cluster(SERVICE, is_in_pod=True), "epp.models.svc:9102"),
        (in_cluster(None, is_in_pod=True), "127.0.0.1:9002"),
        (
            in_cluster(PickerReference(kind="Other", name="a", port=1), is_in_pod=True),
            "127.0.0.1:9002",
        ),
        (in_cluster(SERVICE, is_in_pod=True, grpc_address=HostPort("a", 1)), "a:1"),
    ],
    ids=["file", "flags", "outside", "in a pod", "no reference", "another kind", "named"],
)
def test_the_picker_is_reached_as_a_gateway_would(case: Case, picker: str | None) -> None:
    assert (None if case.picker is None else str(case.picker)) == picker
