"""Imports the oracle once, past the warnings its own code gives under a current pydantic."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import envoy_data_plane.envoy.config.core.v3
    import envoy_data_plane.envoy.service.ext_proc.v3  # noqa: F401
