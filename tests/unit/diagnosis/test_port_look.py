from __future__ import annotations

import pytest

from epp.diagnosis.doctor_options import HostPort
from epp.diagnosis.port_look import Unreachable, look_at_port


@pytest.mark.parametrize(
    "address",
    [HostPort(f"{'a' * 64}.models.svc", 9002), HostPort("a..svc", 9002), HostPort("::1", 70000)],
    ids=["long label", "empty label", "port"],
)
async def test_what_no_address_can_be_is_not_reachable(address: HostPort) -> None:
    with pytest.raises(Unreachable):
        await look_at_port(address)
