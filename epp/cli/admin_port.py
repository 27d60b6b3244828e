"""Asking a running picker by its admin port."""

from __future__ import annotations

import io
from argparse import ArgumentParser, _ActionsContainer
from http import HTTPStatus
from typing import TypeVar

import aiohttp
import msgspec
from yarl import URL

from epp.admin.decision_view import Problem
from epp.diagnosis.page_reading import read_at_most
from epp.framework.errors import PickerError
from epp.support.addresses import split_host_port
from epp.support.argument_types import argument_type
from epp.support.http_problems import http_problem

DEFAULT_ADMIN = "127.0.0.1:9091"
TIMEOUT_SECONDS = 15.0

Page = TypeVar("Page")


class NoAnswer(PickerError):
    """The picker can't be asked, or won't tell; the message says why."""


def add_admin_argument(parser: ArgumentParser | _ActionsContainer) -> None:
    """Declare `--admin`."""
    parser.add_argument(
        "--admin",
        metavar="ADDRESS",
        type=argument_type(_read_address),
        default=DEFAULT_ADMIN,
        help="admin port of a running Endpoint Picker (default %(default)s)",
    )


async def ask(
    address: str, path: str, kind: type[Page], *, sent: bytes | None = None, hint: str = ""
) -> Page:
    """The page at `path` behind this admin port; what is `sent`, JSON, is posted.

    `hint` is what to do when nobody answers.
    """
    method, headers = (
        ("GET", {}) if sent is None else ("POST", {"Content-Type": "application/json"})
    )
    data = None if sent is None else io.BytesIO(sent)
    url = URL(f"http://{address}{path}", encoded=True)  # a request's id may be ".."
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(TIMEOUT_SECONDS)) as session,
            session.request(method, url, data=data, headers=headers) as response,
        ):
            status, content = response.status, await read_at_most(response)
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise NoAnswer(
            f"no Endpoint Picker answers at {address}: {http_problem(error)}; name its admin port"
            f" by --admin{hint}"
        ) from error
    try:
        if status >= HTTPStatus.BAD_REQUEST:
            raise NoAnswer(msgspec.json.decode(content, type=Problem).error)
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NoAnswer(
            f"{address} answers {status}, but is not the admin port of an Endpoint Picker, or is"
            " that of another version"
        ) from error


def _read_address(text: str) -> str:
    if split_host_port(text) is None:
        raise ValueError(f"{text!r} is not an address; allowed: HOST:PORT, such as {DEFAULT_ADMIN}")
    return text
