"""The parsers used when a configuration names none (protocol §5.1)."""

from __future__ import annotations

from epp.framework.request_handling import Parser
from epp.plugins.parsers.anthropic import AnthropicParser
from epp.plugins.parsers.openai import OpenAIParser
from epp.plugins.parsers.passthrough import PassthroughParser
from epp.plugins.parsers.vllmhttp import VllmHttpParser

DEFAULT_PARSERS: tuple[type[Parser], ...] = (
    OpenAIParser,
    AnthropicParser,
    VllmHttpParser,
    PassthroughParser,
)
"""In order of precedence, the fallback last."""


def default_parsers() -> list[Parser]:
    """One of each."""
    return [kind() for kind in DEFAULT_PARSERS]
