"""What all sources that ask endpoints over HTTP can be told."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import structlog
from pydantic import AfterValidator, Field, model_validator

from epp.framework.data_layer import HttpTarget
from epp.framework.plugin import Parameters
from epp.plugins.data_sources.file_paths import OptionalFilePath
from epp.support.durations import parse_duration

log = structlog.get_logger(__name__)

MAX_PORT = 65_535


def _is_duration(text: str) -> str:
    parse_duration(text)
    return text


def _is_path(text: str) -> str:
    if not text.startswith("/") or not text.isprintable() or " " in text:
        raise ValueError(f"{text!r} is not a path; allowed: a slash and what follows it in a URL")
    return text


UrlPath = Annotated[str, AfterValidator(_is_path)]
Interval = Annotated[str, AfterValidator(_is_duration)]


class HttpSourceParameters(Parameters):
    """How to reach the page of an endpoint, and how often."""

    scheme: Literal["http", "https"] = Field("http", description="http or https.")
    insecure_skip_verify: bool = Field(
        True, description="Whether certificates of endpoints are accepted unseen (https)."
    )
    interval: Interval | None = Field(
        None, description="Pause between two polls, such as 100ms; left out, it adapts."
    )

    @property
    def interval_seconds(self) -> float | None:
        """The pause; None where the process decides: nothing or zero was said."""
        return parse_duration(self.interval) or None if self.interval else None


class TlsSourceParameters(HttpSourceParameters):
    """The same with certificates."""

    ca_cert_path: OptionalFilePath = Field(
        None, description="File with the certificates to trust, if they are verified."
    )
    client_cert_path: OptionalFilePath = Field(
        None, description="File with the certificate to show; needs clientKeyPath."
    )
    client_key_path: OptionalFilePath = Field(None, description="File with its key.")

    @model_validator(mode="after")
    def _certificate_has_a_key(self) -> TlsSourceParameters:
        if (self.client_cert_path is None) != (self.client_key_path is None):
            raise ValueError("clientCertPath and clientKeyPath: both or neither")
        return self

    @property
    def trusted(self) -> Path | None:
        """The certificates to trust, unless none is verified."""
        return None if self.insecure_skip_verify else self.ca_cert_path

    def warn_of_ignored(self, name: str) -> None:
        """Say so if something has no effect."""
        if self.ca_cert_path is not None and self.trusted is None:
            log.warning("caCertPath ignored: insecureSkipVerify is on", plugin=name)

    def target(self, host: str, port: int, path: str) -> HttpTarget:
        """A page with these parameters."""
        return HttpTarget(
            scheme=self.scheme,
            host=host,
            port=port,
            path=path,
            insecure_skip_verify=self.insecure_skip_verify,
            ca_cert_path=self.trusted,
            client_cert_path=self.client_cert_path,
            client_key_path=self.client_key_path,
        )
