"""From the text of an EndpointPickerConfig to a `Document`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from epp.config.built_in import BUILT_IN
from epp.config.document import Document
from epp.config.envelope import read_envelope
from epp.config.findings import Findings
from epp.config.salvage import salvaged
from epp.config.schema import KIND, EndpointPickerConfig
from epp.datastore.manifest_errors import without_nulls
from epp.framework.errors import ConfigError
from epp.support.regular_files import read_regular_file
from epp.support.yaml_documents import YamlDocumentsError, load_first_document

MAX_BYTES = 1 << 20


def read_config(path: Path) -> Document:
    """The document in a file; raises `ConfigError` when it can't be read as one."""
    try:
        content = read_regular_file(path, MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from error
    return load_config(content, what=str(path))


def load_config(text: str | bytes, what: str = "the configuration") -> Document:
    """The document in a text; without any text the built-in one (scheduling §1.4).

    Raises `ConfigError` when it is no YAML mapping; other mistakes are kept in the document, for
    `assemble` to raise together with its own.
    """
    findings = Findings()
    raw = _mapping(_decoded(text, what) or BUILT_IN, what, findings)
    written, emptied = salvaged(EndpointPickerConfig, raw, findings)
    return read_envelope(written, emptied, findings, what)


def _decoded(text: str | bytes, what: str) -> str:
    if len(text) > MAX_BYTES:
        raise ConfigError(f"{what} is longer than {MAX_BYTES} bytes")
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{what} is not UTF-8: byte {error.start}") from error


def _mapping(text: str, what: str, findings: Findings) -> dict[str, Any]:
    try:
        raw, has_more = load_first_document(text)
    except YamlDocumentsError as error:
        raise ConfigError(f"{what} can't be used: {error}") from error
    if has_more:
        findings.warning("", "only the first of several YAML documents is read")
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise ConfigError(f"{what} can't be used: not a mapping; it begins with `kind: {KIND}`")
    mapping: dict[str, Any] = without_nulls(raw)
    return mapping
