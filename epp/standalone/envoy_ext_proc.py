"""Envoy's ext_proc filter: what it shows to the pickers, and how long it waits for them."""

from __future__ import annotations

from typing import Any

from epp.standalone.envoy_clusters import EPP

TYPE_URL = "type.googleapis.com/envoy.extensions."


def duration(seconds: float) -> str:
    """A duration as Envoy reads it."""
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"


def ext_proc_filter(
    *,
    fail_open: bool,
    request_bodies: bool,
    response_bodies: bool,
    pick_timeout_seconds: float,
) -> dict[str, Any]:
    """The filter that asks the pickers."""
    config: dict[str, Any] = {
        "@type": TYPE_URL + "filters.http.ext_proc.v3.ExternalProcessor",
        "grpc_service": {"envoy_grpc": {"cluster_name": EPP, "authority": EPP}},
        # Not applied by Envoy to phases that are FULL_DUPLEX_STREAMED.
        "message_timeout": duration(pick_timeout_seconds),
        "metadata_options": {
            "receiving_namespaces": {"untyped": ["envoy.lb"]},
            "forwarding_namespaces": {"untyped": ["envoy.lb", "envoy.lb.subset_hint"]},
        },
        "request_attributes": ["request.id", "source.address"],
        # ORIGINAL_DST puts no served endpoint into the metadata; the address says who served, and
        # the details tell an endpoint's errors from Envoy's own.
        "response_attributes": ["upstream.address", "response.code_details"],
    }
    config |= _fail_open() if fail_open else _fail_close()
    # What has no body for the picker ends with its headers, so there is no use in trailers.
    for phase, is_seen in (("request", request_bodies), ("response", response_bodies)):
        if not is_seen:
            unseen = {f"{phase}_body_mode": "NONE", f"{phase}_trailer_mode": "SKIP"}
            config["processing_mode"] |= unseen
    return {"name": "envoy.filters.http.ext_proc", "typed_config": config}


def _fail_close() -> dict[str, Any]:
    return {
        "failure_mode_allow": False,
        "status_on_error": {"code": "ServiceUnavailable"},
        "processing_mode": {
            "request_header_mode": "SEND",
            "request_body_mode": "FULL_DUPLEX_STREAMED",
            "request_trailer_mode": "SEND",
            "response_header_mode": "SEND",
            "response_body_mode": "FULL_DUPLEX_STREAMED",
            "response_trailer_mode": "SEND",
        },
    }


def _fail_open() -> dict[str, Any]:
    return {
        "failure_mode_allow": True,
        "route_cache_action": "CLEAR",  # else the route chosen before the pick stays
        "processing_mode": {
            "request_header_mode": "SEND",
            "request_body_mode": "BUFFERED",
            "request_trailer_mode": "SKIP",
            "response_header_mode": "SEND",
            "response_body_mode": "STREAMED",
            "response_trailer_mode": "SKIP",
        },
    }
