"""The parsers used when a configuration names none (protocol §5.1)."""

from __future__ import annotations

from epp.framework.request_handling import Parser
from epp.plugins.parsers.anthropic import AnthropicParser
from epp.plugins.parsers.openai import OpenAIParser
from epp.plugins.parsers.passthrough import PassthroughParser
from epp.plugins.parsers.vllmhttp import VllmHttpParser


def default_parsers() -> list[Parser]:
    """Parsers in order of precedence, the fallback last."""
    return [OpenAIParser(), AnthropicParser(), VllmHttpParser(), PassthroughParser()]
