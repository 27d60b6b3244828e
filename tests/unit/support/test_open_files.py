from __future__ import annotations

import subprocess
import sys

import pytest

from epp.data_layer.connection_budget import connections_within

SCRIPT = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (%d, %d))
from epp.support.open_files import open_files_limit, raise_open_files_limit
raise_open_files_limit()
print(open_files_limit(), resource.getrlimit(resource.RLIMIT_NOFILE)[1])
"""


@pytest.mark.parametrize(("soft", "hard"), [(64, 512), (512, 512)])
def test_a_process_may_open_as_many_files_as_the_system_lets_it(soft: int, hard: int) -> None:
    output = subprocess.check_output([sys.executable, "-c", SCRIPT % (soft, hard)], text=True)

    assert output == "512 512\n"


@pytest.mark.parametrize(("limit", "most"), [(20, 8), (64, 16), (1024, 736), (1 << 20, 786_400)])
def test_some_of_them_are_left_to_gateways(limit: int, most: int) -> None:
    assert connections_within(limit) == most
