"""What one simulated server is told, checked as a whole."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

from epp.framework.errors import ConfigError
from epp.simulator.failures import Failures

MAX_OUTPUT_TOKENS = 100_000
"""Longest answer; keeps one request's memory bounded."""


class Mode(StrEnum):
    """Where the text of an answer comes from."""

    RANDOM = "random"
    """Words that follow from seed and prompt."""
    ECHO = "echo"
    """The prompt's own text: of a chat, that of the last user message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatorSettings:
    """One simulated server. Times are in seconds, sizes in tokens or blocks."""

    host: str = "127.0.0.1"
    port: int = 8000
    """0: any free port."""
    name: str = ""
    """Value of the header `x-simulator`; empty: the address a request came in on."""
    model: str = "simulated-model"
    served_model_names: tuple[str, ...] = ()
    """Names that requests use instead of `model`; the first one is the label of the metrics."""
    lora_modules: tuple[str, ...] = ()
    max_loras: int = 1
    """How many adapters run at the same time."""
    max_num_seqs: int = 5
    max_waiting_queue_length: int = 1000
    mode: Mode = Mode.RANDOM
    default_output_tokens: int = 16
    """Length of a random answer when the request sets no limit."""
    time_to_first_token: float = 0.0
    """What prefill costs whatever the prompt's length."""
    prefill_time_per_token: float = 0.0
    """What prefill costs for each token that the prefix cache does not hold."""
    inter_token_latency: float = 0.0
    time_factor_under_load: float = 1.0
    """How many times longer everything takes when `max_num_seqs` sequences run."""
    block_size: int = 16
    kv_cache_size: int = 1024
    enable_prefix_caching: bool = True
    seed: int = 0
    failures: Failures = field(default_factory=Failures)

    def __post_init__(self) -> None:
        self._check_numbers()
        if not self.host:
            raise ConfigError("host: '' is empty; allowed is an address to listen on")
        names = (self.model, *self.served_model_names, *self.lora_modules)
        if not all(names):
            raise ConfigError(f"model: names {names!r} hold an empty one; all need a name")
        served = (*self.model_names, *self.lora_modules)
        if repeated := {name for name in served if served.count(name) > 1}:
            raise ConfigError(
                f"lora_modules, served_model_names: {sorted(repeated)} given more than once;"
                " every name is allowed once"
            )

    @property
    def model_names(self) -> tuple[str, ...]:
        """Names of the base model."""
        return self.served_model_names or (self.model,)

    def _check_numbers(self) -> None:
        for name, least, most in (
            ("port", 0, 65535),
            ("max_loras", 1, math.inf),
            ("max_num_seqs", 1, math.inf),
            ("max_waiting_queue_length", 0, math.inf),
            ("default_output_tokens", 1, MAX_OUTPUT_TOKENS),
            ("time_to_first_token", 0, 3600),
            ("prefill_time_per_token", 0, 3600),
            ("inter_token_latency", 0, 3600),
            ("time_factor_under_load", 1, 1000),
            ("block_size", 1, 65536),
            ("kv_cache_size", 1, 2**24),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                limit = f"{least} or more" if most == math.inf else f"{least} to {most}"
                raise ConfigError(f"{name}: {value} is not allowed; allowed is {limit}")
