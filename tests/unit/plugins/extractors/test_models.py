"""Lists of served models."""

from __future__ import annotations

import pytest

from epp.framework.data_layer import ExtractionError
from epp.framework.data_types import ServedModel
from epp.plugins.extractors.models import MAX_MODELS, ModelsDataExtractor
from epp.testing import built, endpoint_of

KEY = "/v1/models/models-data-extractor"


def test_the_list_is_kept_whole() -> None:
    endpoint = endpoint_of()
    page = b"""{"object": "list", "data": [
        {"id": "base", "object": "model", "created": 17, "owned_by": "vllm", "parent": null,
         "permission": [{}]},
        {"id": "sql-v3", "parent": "base"}]}"""

    assert built(ModelsDataExtractor).extract(page, endpoint, 1.0)

    assert endpoint.state.attributes[KEY] == (
        ServedModel(id="base", kind="model", created=17, owned_by="vllm"),
        ServedModel(id="sql-v3", parent="base"),
    )


@pytest.mark.parametrize(
    "page", [b"", b"[]", b"null", b"{}", b'{"data": [{}]}', b"<html>", b"\xff", b"[" * 100_000]
)
def test_anything_else_is_an_error_and_keeps_the_old_list(page: bytes) -> None:
    endpoint = endpoint_of()
    by = built(ModelsDataExtractor)
    by.extract(b'{"data": []}', endpoint, 1.0)

    with pytest.raises(ExtractionError) as caught:
        by.extract(page, endpoint, 2.0)

    assert not caught.value.applied
    assert endpoint.state.attributes[KEY] == ()


def test_the_list_is_bounded() -> None:
    endpoint = endpoint_of()
    page = b'{"data": [%b]}' % b",".join([b'{"id": "m"}'] * (MAX_MODELS + 1))

    with pytest.raises(ExtractionError) as caught:
        built(ModelsDataExtractor).extract(page, endpoint, 1.0)

    assert caught.value.applied
    assert len(endpoint.state.attributes[KEY]) == MAX_MODELS
