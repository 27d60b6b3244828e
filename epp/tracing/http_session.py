"""The HTTP session towards a collector: what it answers is read up to a bound."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from requests import ConnectionError as Disconnected
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError

MOST_BYTES = 64 << 10
"""A collector that takes spans answers with a few bytes, or with what was wrong with them."""


def http_session() -> Session:
    """A session of the library that OpenTelemetry uses."""
    session = Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, _BoundedAnswers())
    return session


class _BoundedAnswers(HTTPAdapter):
    def send(self, request: PreparedRequest, *args: Any, **kwargs: Any) -> Response:
        response = super().send(request, *args, **kwargs)
        try:
            body = response.raw.read(MOST_BYTES + 1, decode_content=True)
        except HTTPError as error:
            response.close()
            raise Disconnected(error) from error
        if len(body) > MOST_BYTES:
            response.close()
            raise Disconnected(f"the collector answers with more than {MOST_BYTES >> 10} KiB")
        response.raw = BytesIO(body)
        return response
