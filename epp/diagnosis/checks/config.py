"""Is the EndpointPickerConfig one that the picker would start with?"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable

from epp.config.assembly import Assembly, assemble
from epp.config.loader import load_config, read_config
from epp.config.plugin_registry import PluginRegistry
from epp.diagnosis.doctor_case import Case
from epp.diagnosis.doctor_findings import Finding, fault, ok, warning
from epp.framework.errors import ConfigError
from epp.observability.metrics import Metrics

CONFIG = "config"


async def look_at_config(case: Case) -> Iterable[Finding]:
    """The configuration: valid, and what is odd about it."""
    options = case.options
    what = str(options.config_file or ("--config-text" if options.config_text else "built-in"))
    try:
        case.assembly = await asyncio.to_thread(_assembly, case)
    except ConfigError as error:
        return [fault(CONFIG, str(error), "correct it; `epp config check` tells the same")]
    plugins = len(case.assembly.plugins)
    findings = [ok(CONFIG, f"{what}, plugins: {plugins}")]
    findings += [warning(CONFIG, line, "is that meant?") for line in case.assembly.warnings]
    return findings


def _assembly(case: Case) -> Assembly:
    options = case.options
    if options.config_file is not None:
        document = read_config(options.config_file)
    else:
        document = load_config(options.config_text)
    return assemble(
        document,
        PluginRegistry.installed(),
        metrics=Metrics(),
        rng=random.Random(0),
        allow_experimental=options.allow_experimental_plugins,
    )
