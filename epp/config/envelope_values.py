"""Durations and quantities of the document, checked where they stand."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator
from pydantic_core import PydanticCustomError

from epp.support.durations import ALLOWED as ALLOWED_DURATIONS
from epp.support.durations import parse_duration
from epp.support.quantities import ALLOWED as ALLOWED_QUANTITIES
from epp.support.quantities import parse_quantity

_PLAIN_NUMBER = re.compile(r"\d+", re.ASCII)


def _duration(text: str) -> str:
    try:
        parse_duration(text)
    except ValueError:
        raise PydanticCustomError("duration", "{allowed}", {"allowed": ALLOWED_DURATIONS}) from None
    return text


def _quantity(value: object) -> object:
    if isinstance(value, float) and value.is_integer():  # 1e9
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str):
        try:
            return int(value) if _PLAIN_NUMBER.fullmatch(value) else parse_quantity(value)
        except ValueError:
            pass
    raise PydanticCustomError("quantity", "{allowed}", {"allowed": ALLOWED_QUANTITIES})


Duration = Annotated[str, AfterValidator(_duration)]
"""A duration, kept as it is written."""

Quantity = Annotated[int, BeforeValidator(_quantity, json_schema_input_type=int | str)]
"""A Kubernetes quantity, as a number; not negative."""
