"""What pages answer with: a document as JSON, or what is wrong with the request."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from aiohttp import web

from epp.admin.decision_view import Problem

READ_SECONDS = 10.0
"""Longest a body may take to come."""


def json_answer(document: object, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    """A document."""
    return web.Response(
        body=msgspec.json.encode(document), status=status, content_type="application/json"
    )


def problem_answer(status: HTTPStatus, text: str) -> web.Response:
    """What is wrong."""
    return json_answer(Problem(error=text), status)


def late_answer() -> web.Response:
    """The body did not come within `READ_SECONDS`."""
    text = f"the body did not come within {READ_SECONDS:g} s"
    return problem_answer(HTTPStatus.REQUEST_TIMEOUT, text)
