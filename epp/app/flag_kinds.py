"""How the text of a flag becomes a value: one kind per type an option can have."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from epp.datastore.inference_pool import GROUP, OLD_GROUP
from epp.support.durations import format_duration, parse_duration
from epp.support.nearest import did_you_mean
from epp.support.quantities import format_quantity, parse_quantity

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Kind:
    """How the text of a flag becomes a value; `read` raises ValueError naming what is allowed."""

    placeholder: str
    read: Callable[[str], Any]
    write: Callable[[Any], str] = str
    is_list: bool = False
    """Given several times, the texts are joined by commas; else the last one counts."""


def kind_of(hint: Any) -> Kind:
    """Return the kind a type annotation stands for."""
    for extra in getattr(hint, "__metadata__", ()):
        if isinstance(extra, Kind):
            return extra
    origin = get_origin(hint)
    if origin is Annotated:
        return kind_of(get_args(hint)[0])
    if origin in (Union, UnionType):
        return next(kind_of(part) for part in get_args(hint) if part is not NoneType)
    if origin is Literal:
        return choice(*get_args(hint))
    return _KINDS[hint]


def choice(*allowed: str) -> Kind:
    """One of a closed set of words; an empty one among them may stand for none."""
    words = [word for word in allowed if word]

    def read(text: str) -> str:
        if text not in allowed:
            hint = did_you_mean(text, words)
            raise ValueError(f"{text!r} is not one of {', '.join(words)}{hint}")
        return text

    return Kind("|".join(words), read)


def whole_number(placeholder: str, least: int | None = None, most: int | None = None) -> Kind:
    """An integer, decimal or with a prefix as in Go: `0x1f`, `0o17`, `1_000`."""
    bounds = f"{'' if least is None else f' from {least}'}{'' if most is None else f' to {most}'}"

    def read(text: str) -> int:
        try:
            value = int(text, 0) if _NUMBER.fullmatch(text) else None
        except ValueError:
            value = None
        if value is None:
            raise ValueError(f"{text!r} is not a number; allowed: whole numbers{bounds}")
        if (least is not None and value < least) or (most is not None and value > most):
            raise ValueError(f"{text!r} is out of range; allowed: whole numbers{bounds}")
        return value

    return Kind(placeholder, read)


def _read_boolean(text: str) -> bool:
    try:
        return _BOOLEANS[text]
    except KeyError:
        raise ValueError(f"{text!r} is not a boolean; allowed: true or false") from None


def _read_positive_duration(text: str) -> float:
    seconds = parse_duration(text)
    if seconds == 0:
        raise ValueError(f"{text!r} leaves no time; allowed: more than 0")
    return seconds


def _read_positive_quantity(text: str) -> int:
    size = parse_quantity(text)
    if size == 0:
        raise ValueError(f"{text!r} leaves no room; allowed: more than 0")
    return size


def _read_message_limit(text: str) -> int | None:
    return (parse_quantity(text) if text else 0) or None


def _read_ip_address(text: str) -> str:
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if not bare:
        return ""
    try:
        return str(ip_address(bare))
    except ValueError:
        raise ValueError(
            f"{text!r} is not an IP address; allowed: for example 127.0.0.1, :: or 0.0.0.0"
        ) from None


def _read_own_address(text: str) -> str:
    # A variable that is not set must not open to everybody what is for this machine alone.
    return _read_ip_address(text) or LOOPBACK


def _read_zap_level(text: str) -> str | None:
    level = text.lower()  # as zap's own flag, which takes INFO, too
    if level in ("", *ZAP_LEVELS) or (re.fullmatch(r"[0-9]{1,3}", text) and int(text) > 0):
        return level or None
    raise ValueError(
        f"{text!r} is not a level; allowed: {', '.join(ZAP_LEVELS)} or a number above 0"
        f"{did_you_mean(text, ZAP_LEVELS)}"
    )


def _read_path(text: str) -> Path | None:
    return Path(text) if text else None


def _read_ports(text: str) -> tuple[int, ...]:
    port = whole_number("PORT", 1, 65535)
    return tuple(dict.fromkeys(port.read(part) for part in text.split(",") if part))


def _read_words(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


def _write_list(values: tuple[object, ...]) -> str:
    return ",".join(map(str, values))


def _read_pool_group(text: str) -> str:
    if text == OLD_GROUP:
        raise ValueError(
            f"{text!r} is the group from before v1, which is not served here; apply the pool anew"
            f" as apiVersion {GROUP}/v1 and leave the flag out"
        )
    if text not in ("", GROUP):
        raise ValueError(f"{text!r} is not a group of InferencePools; allowed: {GROUP}")
    return GROUP


def _read_object_name(text: str) -> str:
    if text and not _OBJECT_NAME.fullmatch(text):
        raise ValueError(
            f"{text!r} is no name of Kubernetes; allowed: lower-case letters, digits, '-' and '.'"
        )
    return text


def _read_namespace(text: str) -> str:
    if text and not _NAMESPACE.fullmatch(text):
        raise ValueError(
            f"{text!r} is no namespace; allowed: at most 63 lower-case letters, digits and '-'"
        )
    return text


def _read_selector(text: str) -> str:
    if text and not _SELECTOR.fullmatch(text):
        raise ValueError(
            f"{text!r} is no label selector; allowed: terms such as app=vllm, app!=vllm,"
            " app in (a,b), app notin (a,b), app, !app, with commas between them"
        )
    return text


_OBJECT_NAME = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)
_NAMESPACE = re.compile(r"(?=.{1,63}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?")
# What the API server parses as one (labels.Parse).
_LABEL = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = rf"(?:[a-z0-9][-a-z0-9.]{{0,252}}/)?{_LABEL}"
_VALUE = rf"(?:{_LABEL})?"
_VALUES = rf"\(\s*{_VALUE}\s*(?:,\s*{_VALUE}\s*)*\)"
_TERM = (
    rf"\s*(?:!\s*{_KEY}|{_KEY}(?:\s*(?:==?|!=)\s*{_VALUE}|\s+(?:in|notin)\s*{_VALUES}"
    rf"|\s*[<>]\s*[0-9]+)?)\s*"
)
_SELECTOR = re.compile(rf"{_TERM}(?:,{_TERM})*")

ZAP_LEVELS = ("debug", "info", "error", "panic")
_NUMBER = re.compile(r"[+-]?[0-9][0-9a-zA-Z_]*")
_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_FALSE = ("0", "f", "F", "false", "FALSE", "False")
_BOOLEANS: Mapping[str, bool] = {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}

BOOLEAN = Kind("BOOL", _read_boolean, lambda value: str(value).lower())
_KINDS: Mapping[Any, Kind] = {
    bool: BOOLEAN,
    int: whole_number("INT"),
    str: Kind("TEXT", str),
    Path: Kind("PATH", _read_path),
}

Port = Annotated[int, whole_number("PORT", 0, 65535)]
Count = Annotated[int, whole_number("COUNT", 1)]
WholeNumber = Annotated[int, whole_number("COUNT", 0)]
Seconds = Annotated[float, Kind("DURATION", parse_duration, format_duration)]
PositiveSeconds = Annotated[float, Kind("DURATION", _read_positive_duration, format_duration)]
Bytes = Annotated[int, Kind("SIZE", _read_positive_quantity, format_quantity)]
MessageLimit = Annotated[int | None, Kind("SIZE", _read_message_limit, format_quantity)]
IpAddress = Annotated[str, Kind("ADDRESS", _read_ip_address)]
OwnAddress = Annotated[str, Kind("ADDRESS", _read_own_address)]
ZapLevel = Annotated[str, Kind("LEVEL", _read_zap_level)]
Ports = Annotated[tuple[int, ...], Kind("PORT,...", _read_ports, _write_list, is_list=True)]
Words = Annotated[tuple[str, ...], Kind("NAME,...", _read_words, _write_list, is_list=True)]
ObjectName = Annotated[str, Kind("NAME", _read_object_name)]
Namespace = Annotated[str, Kind("NAMESPACE", _read_namespace)]
LabelSelector = Annotated[str, Kind("SELECTOR", _read_selector)]
PoolGroup = Annotated[str, Kind("GROUP", _read_pool_group)]
FailureModeName = Literal["FailOpen", "FailClose"]
ErrorFormatName = Literal["text", "json"]
