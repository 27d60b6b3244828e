"""The models a server serves, and ids for its answers."""

from __future__ import annotations

import random

from epp.simulator.errors import ApiError
from epp.simulator.settings import SimulatorSettings


class Catalog:
    """Base model and adapters by name."""

    def __init__(self, settings: SimulatorSettings, created: int) -> None:
        self._base_names = settings.model_names
        self._root = settings.model
        self._adapters = settings.lora_modules
        self._created = created

    def adapter_of(self, model: str) -> str:
        """The adapter that requests for `model` need, empty for the base model."""
        if model in self._base_names:
            return ""
        if model in self._adapters:
            return model
        raise ApiError(404, f"The model `{model}` does not exist.", param="model")

    def listing(self) -> dict[str, object]:
        """The body of `/v1/models`."""
        base = [self._card(name, self._root, None) for name in self._base_names]
        adapters = [self._card(name, name, self._base_names[0]) for name in self._adapters]
        return {"object": "list", "data": base + adapters}

    def _card(self, name: str, root: str, parent: str | None) -> dict[str, object]:
        return {
            "id": name,
            "object": "model",
            "created": self._created,
            "owned_by": "simulator",
            "root": root,
            "parent": parent,
        }


class Ids:
    """Ids of answers: unique within one server, the same in the next run."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"ids {seed}")

    def next_id(self, prefix: str) -> str:
        """One more id."""
        return f"{prefix}-{self._random.getrandbits(128):032x}"
