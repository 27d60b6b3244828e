"""What all answers have in common: the server's name, and errors as each API shapes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Handler

from epp.simulator.bodies import json_response
from epp.simulator.engine import QueueFull
from epp.simulator.errors import ApiError
from epp.simulator.event_stream import StreamCut
from epp.support.addresses import join_host_port

NAME_HEADER = "x-simulator"
_API = "/v1/"
ANTHROPIC_PATHS = "/v1/messages"

_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def name_header(name: str) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    """A signal that says in each answer who gave it."""

    async def add(request: web.Request, response: web.StreamResponse) -> None:
        response.headers[NAME_HEADER] = name or _own_address(request)

    return add


@web.middleware
async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn errors into answers."""
    try:
        return await handler(request)
    except ApiError as error:
        return error_response(request.path, error)
    except web.HTTPNotFound as error:
        return error_response(request.path, ApiError(error.status, _not_here(request)))
    except QueueFull:
        # Not 503: that is a fault, for which gateways eject an endpoint that merely is busy.
        return error_response(request.path, ApiError(429, "The queue of waiting requests is full."))
    except (StreamCut, ConnectionResetError):
        return web.Response()  # to nobody: the connection is closed


def error_response(path: str, error: ApiError) -> web.Response:
    """`error` in the shape of the API that `path` belongs to."""
    if path.startswith(ANTHROPIC_PATHS):
        kind = _ANTHROPIC_TYPES.get(error.status, "api_error")
        body: dict[str, object] = {
            "type": "error",
            "error": {"type": kind, "message": error.message},
        }
    else:
        body = {
            "error": {
                "message": error.message,
                "type": _openai_type(error.status),
                "param": error.param,
                "code": error.status,
            }
        }
    return json_response(body, status=error.status)


def _openai_type(status: int) -> str:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        return "UnknownError"
    return phrase.replace(" ", "").removesuffix("Error") + "Error"


def _not_here(request: web.Request) -> str:
    paths = (resource.canonical for resource in request.app.router.resources())
    known = ", ".join(path for path in paths if path.startswith(_API))
    return f"{request.path} is not simulated; there is {known}."


def _own_address(request: web.Request) -> str:
    address = request.get_extra_info("sockname")
    return join_host_port(address[0], address[1]) if address else "unknown"
