"""A context to build one plugin in, and endpoints and requests to show to it: `epp.testing`."""

from __future__ import annotations

from epp.testing import FakeContext, built, endpoint_of, put, request_of

__all__ = ["FakeContext", "built", "endpoint_of", "put", "request_of"]
