"""docs/plugins.md tells of every contract, and its examples run."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import epp.framework
from epp.framework import DataProducer, Parameters, Plugin
from epp.framework.parsed_request import ParsedRequest, PromptText
from epp.framework.plugin import parameters_of
from epp.observability.instruments import MAX_SERIES_PER_FAMILY
from epp.request_control.body_hooks import MAX_PENDING
from epp.scheduling.overruns import MOST_IN_A_ROW
from epp.scheduling.rating import SCORER_BUDGET_SECONDS
from epp.testing import built, endpoint_of, request_of
from tests.fakes.documented_steps import blocks_of, files_of

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/plugins.md"
TEXT = PAGE.read_text()
EXAMPLE = ROOT / "examples/acme-scorers"
SNIPPETS = [block.text for block in blocks_of(PAGE) if block.kind == "python" and not block.file]

CONTRACTS = {
    name: contract
    for name in epp.framework.__all__
    if inspect.isclass(contract := getattr(epp.framework, name))
    and issubclass(contract, Plugin)
    and contract is not Plugin
}
ROWS = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", TEXT, re.M))


def methods_of(contract: type[Plugin]) -> set[str]:
    return {
        name
        for name, member in vars(contract).items()
        if inspect.isfunction(member) and not name.startswith("_")
    }


def attributes_of(contract: type[Plugin]) -> set[str]:
    """What a subclass has to set: announced without a value, or empty."""
    return {name for name in inspect.get_annotations(contract) if not name.isupper()}


def names_in(cell: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", cell))


def test_every_contract_has_a_row() -> None:
    assert set(ROWS) == set(CONTRACTS)


@pytest.mark.parametrize("name", CONTRACTS)
def test_a_row_names_the_methods_of_its_contract(name: str) -> None:
    methods = methods_of(CONTRACTS[name])
    cell = ROWS[name].split(" | ")[0]

    assert names_in(cell) == methods or names_in(cell) <= attributes_of(CONTRACTS[name])


@pytest.mark.parametrize("name", CONTRACTS)
def test_a_row_tells_whether_its_methods_may_wait(name: str) -> None:
    contract = CONTRACTS[name]
    may_wait = any(
        "Awaitable" in str(inspect.get_annotations(getattr(contract, method)).get("return"))
        for method in methods_of(contract)
    )

    told = ROWS[name].split(" | ")[2].strip() if methods_of(contract) else ""
    assert told.startswith("yes") is may_wait


@pytest.mark.parametrize(
    "sentence",
    [
        f"more than {SCORER_BUDGET_SECONDS} seconds",
        f"after {MOST_IN_A_ROW} such calls in a row",
        f"(default {DataProducer.timeout_seconds})",
        f"holds at most {MAX_SERIES_PER_FAMILY:,} series",
        f"more than {MAX_PENDING} pieces behind",
    ],
)
def test_a_limit_is_what_the_code_says(sentence: str) -> None:
    assert sentence in " ".join(TEXT.split())


def test_the_files_of_the_page_are_the_example() -> None:
    example = {
        str(path.relative_to(EXAMPLE)): path.read_text()
        for path in EXAMPLE.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }

    assert files_of(PAGE) == {name: text for name, text in example.items() if name != "README.md"}


def test_what_is_imported_is_what_strangers_may_import() -> None:
    allowed = ("epp.framework", "epp.framework.data_types", "epp.library", "epp.testing")
    sources = [block.text for block in blocks_of(PAGE) if block.kind == "python"]
    imported = {
        node.module
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("epp")
    }

    assert imported <= set(allowed)
    assert all(f"`{module}`" in TEXT for module in allowed)


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", TEXT):
        file, _, anchor = target.partition("#")
        path = PAGE.parent / file if file else PAGE
        assert path.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", path.read_text(), re.M)
            assert anchor in {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}


def defined_in(snippet: str) -> dict[str, Any]:
    scope: dict[str, Any] = {"__name__": __name__}
    exec(compile(snippet, str(PAGE), "exec"), scope)
    return scope


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_the_plugins_of_a_snippet_can_be_built(snippet: str) -> None:
    scope = defined_in(snippet)
    classes = [
        each
        for each in scope.values()
        if inspect.isclass(each) and each.__module__ == __name__ and each.__name__ in snippet
    ]

    assert classes
    for each in classes:
        if issubclass(each, Plugin):
            assert parameters_of(each) is None
            built(each)


def snippet_with(name: str) -> dict[str, Any]:
    (snippet,) = [each for each in SNIPPETS if f"class {name}" in each]
    return defined_in(snippet)


def test_parameters_that_do_not_fit_together_are_refused() -> None:
    schema: type[Parameters] = snippet_with("Range")["Range"]

    assert schema.model_validate({"low": 1, "high": 2}).model_dump() == {"low": 1, "high": 2}
    with pytest.raises(ValueError, match="low must be below high"):
        schema.model_validate({"low": 2, "high": 2})


def test_the_scorer_of_a_snippet_reads_what_its_producer_writes() -> None:
    scope = snippet_with("TenantProducer")
    scope["TenantProducer"].type = "tenant-producer"
    producer, scorer = built(scope["TenantProducer"]), built(scope["TenantAffinityScorer"])
    request = request_of(headers={"x-acme-tenant": "blue"})
    own, other = endpoint_of(labels={"acme.example/tenant": "blue"}), endpoint_of()

    producer.produce(request, [own, other])

    assert scorer.score(request, [own, other]) == [1.0, 0.0]


def test_the_scorer_of_a_snippet_goes_by_metrics() -> None:
    scorer = built(snippet_with("FewRunningScorer")["FewRunningScorer"])
    endpoints = [endpoint_of(running=running) for running in (0, 3)]

    assert scorer.score(request_of(), endpoints) == [1.0, 0.25]


def test_the_producer_of_a_snippet_hashes_prompts() -> None:
    scope = snippet_with("DigestProducer")
    scope["DigestProducer"].type = "digest-producer"
    producer = built(scope["DigestProducer"])
    prompts = [PromptText((b"Why", memoryview(b"?")))]
    parsed = ParsedRequest(api="completions", model="m", read_prompts=lambda: prompts)
    request, bare = request_of(parsed=parsed), request_of()

    producer.produce(request, [])
    producer.produce(bare, [])

    digests = [list(each.attributes.values()) for each in (request, bare)]
    assert digests[0] != digests[1]
    assert all(len(digest) == 64 for (digest,) in digests)
