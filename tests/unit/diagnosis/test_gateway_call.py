from __future__ import annotations

import pytest

from epp.diagnosis.gateway_call import CallFailed, Trial


@pytest.mark.parametrize(
    ("details", "reason", "told"),
    [
        ("epp_rejected_no_endpoints", "rejected-no-endpoints", "epp_rejected_no_endpoints"),
        ("epp_overloaded", "", "epp_overloaded"),
        ("", "rejected-saturated", "rejected-saturated"),
        ("ext_proc_error", "rejected-saturated", "ext_proc_error rejected-saturated"),
        ("", "", ""),
    ],
)
def test_why_a_request_was_rejected_is_told_once(details: str, reason: str, told: str) -> None:
    assert Trial(details=details, reason=reason).why == told


@pytest.mark.parametrize(
    ("code", "message", "told"),
    [
        ("DEADLINE_EXCEEDED", "Deadline Exceeded", "DEADLINE_EXCEEDED"),
        ("UNIMPLEMENTED", "", "UNIMPLEMENTED"),
        ("UNAVAILABLE", "connection refused", "UNAVAILABLE: connection refused"),
    ],
)
def test_a_failed_call_tells_its_code_once(code: str, message: str, told: str) -> None:
    assert str(CallFailed(code, message)) == told
