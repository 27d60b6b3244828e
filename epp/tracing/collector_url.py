"""The collector's URL in logs: user, password and query may be secrets."""

from __future__ import annotations

import re

_USER = re.compile(r"[^\s'\"(/]*@")
_QUERY = re.compile(r"\?[^\s'\"),]*")


def shown_url(url: str) -> str:
    """Where it is, and no more."""
    scheme, separator, rest = url.rpartition("://")
    return f"{scheme}{separator}{rest.partition('?')[0].rpartition('@')[2]}"


def without_secrets(text: str, url: str) -> str:
    """What may be told of a text that quotes the URL, or parts of it, as it is or quoted anew."""
    path, mark, query = url.rpartition("://")[2].partition("?")
    user, at, _ = path.rpartition("@")
    for secret in (user + at, mark + query):
        if secret:
            text = text.replace(secret, "")
    return _QUERY.sub("", _USER.sub("", text))
