"""Does the gateway show the picker what it needs, and take its answers for what they mean?"""

from __future__ import annotations

from collections.abc import Iterator

from epp.datastore.inference_pool import FailureMode
from epp.diagnosis.doctor_case import Case
from epp.diagnosis.doctor_findings import Finding, fault, ok, warning
from epp.diagnosis.envoy_dump import items
from epp.diagnosis.envoy_filter import FULL_DUPLEX, ExtProcSettings
from epp.gateway.messages import DESTINATION_NAMESPACE, SUBSET_NAMESPACE

BODIES = "gateway-body-modes"
METADATA = "gateway-metadata"
FAILURE_MODE = "gateway-failure-mode"
TIMEOUT = "gateway-message-timeout"
OVERRIDE = "gateway-mode-override"

_UNSEEN = {
    "NONE": "the picker sees no request body: no model, no prefix caches, no model rewrite",
    "STREAMED": "the picker has to pick before it sees the body: no model, no prefix caches",
    "BUFFERED_PARTIAL": "of long bodies the picker sees the beginning only",
}
_BEST = f"request_body_mode: {FULL_DUPLEX} with request_trailer_mode: SEND, or BUFFERED"


def judge_filter(case: Case, settings: ExtProcSettings, *, reads_metadata: bool) -> list[Finding]:
    """Everything about one ext_proc filter; `reads_metadata`: the pick has no other way."""
    return [
        *_judge_bodies(settings),
        *_judge_metadata(settings, reads_metadata),
        *_judge_failure_mode(case, settings),
        *_judge_timeout(case, settings),
        *_judge_override(settings),
    ]


def _judge_bodies(settings: ExtProcSettings) -> Iterator[Finding]:
    problems = list(_body_problems(settings))
    yield from problems
    if not problems:
        modes = f"requests {settings.request_body}, responses {settings.response_body}"
        yield ok(BODIES, modes)


def _body_problems(settings: ExtProcSettings) -> Iterator[Finding]:
    if settings.config.get("observability_mode") is True:
        yield fault(
            BODIES,
            "observability_mode: answers of the picker are thrown away",
            "leave it out",
        )
    if not settings.shows("request_header", by_default=True):
        text = "request_header_mode: SKIP: the picker can't set the destination"
        yield fault(BODIES, text, "request_header_mode: SEND")
    if not settings.shows("response_header", by_default=True):
        text = "response headers are kept from the picker: it learns of no errors"
        yield warning(BODIES, text, "response_header_mode: SEND")
    if unseen := _UNSEEN.get(settings.request_body):
        yield warning(BODIES, f"request_body_mode {settings.request_body}: {unseen}", _BEST)
    for phase, mode in (("request", settings.request_body), ("response", settings.response_body)):
        if mode == FULL_DUPLEX and not settings.shows(f"{phase}_trailer", by_default=False):
            text = f"{phase}_body_mode {FULL_DUPLEX} without {phase} trailers, which Envoy refuses"
            yield fault(BODIES, text, f"{phase}_trailer_mode: SEND")
    if settings.response_body in ("BUFFERED", "BUFFERED_PARTIAL"):
        text = f"response_body_mode {settings.response_body}: no token reaches a client early"
        yield warning(BODIES, text, f"response_body_mode: STREAMED, {FULL_DUPLEX} or NONE")


def _judge_metadata(settings: ExtProcSettings, reads_metadata: bool) -> Iterator[Finding]:
    received, forwarded = settings.namespaces("receiving"), settings.namespaces("forwarding")
    problems = []
    if DESTINATION_NAMESPACE not in received:
        judge = fault if reads_metadata else warning
        text = f"receiving_namespaces lacks {DESTINATION_NAMESPACE}: metadata of the pick is lost"
        if reads_metadata:
            text += ", and the cluster reads nothing else"
        problems.append(judge(METADATA, text, _option("receiving", DESTINATION_NAMESPACE)))
    if SUBSET_NAMESPACE not in forwarded:
        text = f"forwarding_namespaces lacks {SUBSET_NAMESPACE}: the picker sees no subset"
        advice = _option("forwarding", SUBSET_NAMESPACE) + "; without subsets it does not matter"
        problems.append(warning(METADATA, text, advice))
    attributes = items(settings.config, "response_attributes")
    if DESTINATION_NAMESPACE not in forwarded and "upstream.address" not in attributes:
        text = "the picker can't see which endpoint served, only which it picked"
        problems.append(warning(METADATA, text, "response_attributes: [upstream.address]"))
    yield from problems
    if not problems:
        text = f"forwarded to the picker: {', '.join(forwarded)}"
        text += f"; received from it: {', '.join(received)}"
        yield ok(METADATA, text)


def _option(direction: str, namespace: str) -> str:
    return f"metadata_options: {{{direction}_namespaces: {{untyped: [{namespace}]}}}}"


def _judge_failure_mode(case: Case, settings: ExtProcSettings) -> Iterator[Finding]:
    mode, allows = case.failure_mode, settings.allows_failure
    said = f"failure_mode_allow: {str(allows).lower()}"
    if mode is not None and allows is not (mode is FailureMode.FAIL_OPEN):
        yield fault(
            FAILURE_MODE,
            f"{said}, but the pool says {mode}",
            f"failure_mode_allow: {str(not allows).lower()}, or another failureMode in the pool's"
            " endpointPickerRef",
        )
    elif allows and settings.is_full_duplex:
        text = f"{said} helps only until the first byte of a body has gone to the picker"
        yield warning(FAILURE_MODE, text, "request_body_mode: BUFFERED, where the body is kept")
    else:
        yield ok(FAILURE_MODE, f"{said}, as the pool says" if mode else said)


def _judge_timeout(case: Case, settings: ExtProcSettings) -> Iterator[Finding]:
    if settings.is_full_duplex:
        yield ok(TIMEOUT, "does not apply to full duplex; --decision-timeout does")
        return
    has, decision = settings.message_timeout, case.options.decision_timeout
    if has > decision:
        yield ok(TIMEOUT, f"{has:g} s")
        return
    text = f"message_timeout {has:g} s is not above --decision-timeout {decision:g} s"
    # A default of a fifth of a second fails whenever the picker is busy.
    judge = warning if has >= 1 else fault
    yield judge(TIMEOUT, f"{text}: the gateway gives up first", "message_timeout: 30s")


def _judge_override(settings: ExtProcSettings) -> Iterator[Finding]:
    if settings.config.get("allow_mode_override") is not True:
        return
    text = "allow_mode_override has no effect: the picker sends no mode_override"
    if FULL_DUPLEX in (settings.request_body, settings.response_body):
        text += ", and Envoy ignores it in full duplex"
    yield warning(OVERRIDE, text, "set the modes in processing_mode, and leave it out")
