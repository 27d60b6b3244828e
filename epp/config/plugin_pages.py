"""The reference page of bundled plugins, written from their code.

python -m epp.config.plugin_pages > docs/plugin-reference.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from epp.config.descriptions import Description, describe
from epp.config.parameter_tables import ParameterRow
from epp.config.plugin_registry import PluginRegistry
from epp.config.unavailable import UNAVAILABLE
from epp.observability.metrics_page import metric_table

_INTRODUCTION = """\
# Plugin reference

Written by `python -m epp.config.plugin_pages > docs/plugin-reference.md`; a test fails when it is
not up to date. How plugins are configured is told in [configuration.md](configuration.md);
`epp plugins show TYPE` prints the same for any plugin type that is installed.

What a plugin reads is bound to who writes it when the configuration is loaded; shown is what it
reads and writes with default parameters.

- Alpha: may change; needs `--allow-experimental-plugins`
- Beta, Stable: usable as they are
- Deprecated: there is a better one
"""


def reference_page() -> str:
    """`docs/plugin-reference.md`."""
    registry = PluginRegistry()
    described = [describe(plugin_type, registry) for plugin_type in registry.types()]
    kinds = sorted({description.kinds[0] for description in described})
    lines = [_INTRODUCTION]
    for kind in kinds:
        of_kind = [description for description in described if description.kinds[0] == kind]
        lines.append(f"\n## {_plural(kind)}\n\n| type | stability | |\n|---|---|---|\n")
        lines += [
            _row(f"[`{one.type}`](#{one.type})", one.stability, one.summary) for one in of_kind
        ]
        for description in of_kind:
            lines += _section(description)
    lines.append("\n## Not available\n\nTypes of the reference that this version does not have: ")
    lines.append(", ".join(f"`{name}`" for name in sorted(UNAVAILABLE)) + ".\n")
    return "".join(lines)


def _plural(kind: str) -> str:
    words = kind[0].upper() + kind[1:]
    return words if words.endswith("y") else f"{words}s"


def _section(description: Description) -> Iterator[str]:
    yield f"\n### {description.type}\n\n{description.summary}\n"
    if description.text:
        yield f"\n{description.text}\n"
    facts = [(name, value) for name, value in facts_of(description) if name != "metrics"]
    if facts:
        yield "\n" + "".join(f"- {name}: {value}\n" for name, value in facts)
    if description.parameters and not description.ignores_parameters:
        yield "\n| parameter | type | default | allowed | meaning |\n|---|---|---|---|---|\n"
        yield from (_parameter(row) for row in description.parameters)
    if description.metrics:
        yield "\n" + "".join(f"{line}\n" for line in metric_table(description.metrics))


def facts_of(description: Description) -> Iterator[tuple[str, str]]:
    """What is known of a type beside its parameters."""
    if len(description.kinds) > 1:
        yield "is", ", ".join(description.kinds)
    if description.hooks:
        yield "follows", ", ".join(description.hooks)
    if description.replaced_by:
        yield "replaced by", description.replaced_by
    if description.scores:
        yield "scores", description.scores
    for name, data in (("reads", description.reads), ("writes", description.writes)):
        if data:
            yield name, ", ".join(data)
    if description.metrics:
        yield "metrics", ", ".join(spec.name for spec in description.metrics)
    if description.ignores_parameters:
        yield "parameters", "ignored"
    elif not description.parameters:
        yield "parameters", "none"


def _parameter(row: ParameterRow) -> str:
    return _row(
        f"`{row.path}`", row.type, f"`{row.default}`" if row.default else "", row.bounds,
        row.description,
    )  # fmt: skip


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


if __name__ == "__main__":
    sys.stdout.write(reference_page())
