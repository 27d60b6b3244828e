"""GPU utilization."""

from __future__ import annotations

import pytest

from epp.framework.data_layer import ExtractionError
from epp.plugins.extractors.dcgm import DcgmExtractor
from epp.testing import built, endpoint_of

KEY = "GPUUtilization/dcgm-extractor"


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        pytest.param(
            b'DCGM_FI_DEV_GPU_UTIL{gpu="0",pod="p1"} 40\n'
            b'DCGM_FI_DEV_GPU_UTIL{gpu="1",pod="p2"} 90\n'
            b'DCGM_FI_DEV_GPU_UTIL{gpu="2"} 55\n',
            0.55,
            id="D16",
        ),
        pytest.param(b"DCGM_FI_DEV_GPU_UTIL 0", 0.0, id="idle"),
        pytest.param(
            b'DCGM_FI_DEV_GPU_UTIL{pod="p1"} NaN\nDCGM_FI_DEV_GPU_UTIL{pod="p1"} 30\n',
            0.3,
            id="not a number",
        ),
    ],
)
def test_the_busiest_gpu_of_the_pod_counts(page: bytes, expected: float) -> None:
    endpoint = endpoint_of("p1")

    assert built(DcgmExtractor).extract(page, endpoint, 1.0)

    assert endpoint.state.attributes[KEY] == pytest.approx(expected)


@pytest.mark.parametrize(
    "page",
    [
        b"",
        b'DCGM_FI_DEV_GPU_UTIL{pod="p2"} 90\n',
        b'DCGM_FI_DEV_GPU_UTIL{pod="p1"} -1\n',
        b'DCGM_FI_DEV_GPU_UTIL{pod="p1"} 1e9\n',
        b"<html>",
    ],
)
def test_no_usable_series_is_an_error_and_keeps_the_old_value(page: bytes) -> None:
    endpoint = endpoint_of("p1")
    by = built(DcgmExtractor)
    by.extract(b"DCGM_FI_DEV_GPU_UTIL 20", endpoint, 1.0)

    with pytest.raises(ExtractionError) as caught:
        by.extract(page, endpoint, 2.0)

    assert not caught.value.applied
    assert endpoint.state.attributes[KEY] == 0.2
