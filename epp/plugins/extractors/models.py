"""Served models of an endpoint, from its `/v1/models` (datalayer §6.1)."""

from __future__ import annotations

import msgspec

from epp.framework.data_layer import MODEL_LIST, ExtractionError, Extractor
from epp.framework.data_types import SERVED_MODELS, ServedModel
from epp.framework.endpoint import Endpoint
from epp.framework.plugin import PluginContext

MAX_MODELS = 4096


class _Model(msgspec.Struct, frozen=True, gc=False):
    id: str
    object: str | None = None
    created: float | None = None
    owned_by: str | None = None
    parent: str | None = None


class _Models(msgspec.Struct, frozen=True, gc=False):
    data: list[_Model]


_decoder = msgspec.json.Decoder(_Models)


class ModelsDataExtractor(Extractor):
    """Keeps the list of models that an endpoint serves, adapters included."""

    type = "models-data-extractor"
    payload = MODEL_LIST
    ignores_parameters = True

    def __init__(self, context: PluginContext) -> None:
        self._models = context.produces(SERVED_MODELS)

    def extract(self, payload: bytes, endpoint: Endpoint, now: float) -> bool:
        """Replace the list of the endpoint."""
        try:
            models = _decoder.decode(payload).data
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise ExtractionError(f"not a list of models: {error}", applied=False) from error
        self._models.put_on(endpoint, tuple(map(_served, models[:MAX_MODELS])))
        if len(models) > MAX_MODELS:
            raise ExtractionError(f"more than {MAX_MODELS} models", applied=True)
        return True


def _served(model: _Model) -> ServedModel:
    return ServedModel(
        id=model.id,
        kind=model.object or "",
        created=int(model.created or 0),
        owned_by=model.owned_by or "",
        parent=model.parent or "",
    )
