from __future__ import annotations

from typing import Any

import pytest

from epp.datastore.inference_pool import AppProtocol
from epp.standalone.envoy_clusters import Address
from epp.standalone.envoy_config import EnvoySettings, envoy_bootstrap
from epp.standalone.envoy_ext_proc import duration
from epp.standalone.envoy_tls import PickerIdentity


def settings(**changes: Any) -> EnvoySettings:
    values: dict[str, Any] = {
        "listener": Address("127.0.0.1", 8080),
        "pickers": (Address("127.0.0.1", 9002),),
        "fail_open": False,
        "endpoints": (Address("10.0.0.1", 8000), Address("fd00::1", 8001)),
    }
    return EnvoySettings(**{**values, **changes})


def listener(bootstrap: dict[str, Any]) -> dict[str, Any]:
    return dict(bootstrap["static_resources"]["listeners"][0])


def connection_manager(bootstrap: dict[str, Any]) -> dict[str, Any]:
    return dict(listener(bootstrap)["filter_chains"][0]["filters"][0]["typed_config"])


def ext_proc(bootstrap: dict[str, Any]) -> dict[str, Any]:
    return dict(connection_manager(bootstrap)["http_filters"][0]["typed_config"])


def virtual_host(bootstrap: dict[str, Any]) -> dict[str, Any]:
    return dict(connection_manager(bootstrap)["route_config"]["virtual_hosts"][0])


def routes(bootstrap: dict[str, Any]) -> list[dict[str, Any]]:
    return list(virtual_host(bootstrap)["routes"])


def cluster(bootstrap: dict[str, Any], name: str) -> dict[str, Any]:
    clusters = bootstrap["static_resources"]["clusters"]
    return next(dict(entry) for entry in clusters if entry["name"] == name)


def hosts(entry: dict[str, Any]) -> list[tuple[str, int]]:
    addresses = [
        host["endpoint"]["address"]["socket_address"]
        for host in entry["load_assignment"]["endpoints"][0]["lb_endpoints"]
    ]
    return [(address["address"], address["port_value"]) for address in addresses]


def upstream_protocol(entry: dict[str, Any]) -> dict[str, Any]:
    (options,) = entry["typed_extension_protocol_options"].values()
    return dict(options["explicit_http_config"])


def test_fail_close_has_no_way_around_the_picker() -> None:
    bootstrap = envoy_bootstrap(settings(fail_open=False))

    assert [route["route"]["cluster"] for route in routes(bootstrap)] == ["picked_endpoint"]
    assert ext_proc(bootstrap)["failure_mode_allow"] is False
    assert ext_proc(bootstrap)["status_on_error"] == {"code": "ServiceUnavailable"}
    names = [entry["name"] for entry in bootstrap["static_resources"]["clusters"]]
    assert names == ["picked_endpoint", "epp"]


def test_fail_open_keeps_the_body_and_falls_back_to_every_endpoint() -> None:
    bootstrap = envoy_bootstrap(settings(fail_open=True))

    assert [route["route"]["cluster"] for route in routes(bootstrap)] == [
        "picked_endpoint",
        "pool_fallback",
    ]
    assert routes(bootstrap)[0]["match"]["headers"][0]["name"] == "x-gateway-destination-endpoint"
    assert ext_proc(bootstrap)["failure_mode_allow"] is True
    assert ext_proc(bootstrap)["route_cache_action"] == "CLEAR"
    assert ext_proc(bootstrap)["processing_mode"]["request_body_mode"] == "BUFFERED"
    assert hosts(cluster(bootstrap, "pool_fallback")) == [("10.0.0.1", 8000), ("fd00::1", 8001)]


@pytest.mark.parametrize("fail_open", [False, True], ids=["fail close", "fail open"])
def test_without_response_bodies_the_picker_sees_response_headers_and_no_more(
    fail_open: bool,
) -> None:
    bootstraps = [
        envoy_bootstrap(settings(fail_open=fail_open, response_bodies=shown))
        for shown in (True, False)
    ]

    with_bodies, without = (ext_proc(each)["processing_mode"] for each in bootstraps)
    assert with_bodies["response_body_mode"] != "NONE"
    assert without["response_body_mode"] == "NONE"
    assert without["response_trailer_mode"] == "SKIP"
    assert without["response_header_mode"] == "SEND"
    assert without["request_body_mode"] == with_bodies["request_body_mode"]


def test_only_fail_open_buffers_whole_bodies() -> None:
    limits = [
        virtual_host(
            envoy_bootstrap(settings(fail_open=fail_open, max_request_body_bytes=5 << 20))
        ).get("request_body_buffer_limit")
        for fail_open in (False, True)
    ]

    assert limits == [None, 5 << 20]


def validation_of_pickers(identity: PickerIdentity | None) -> dict[str, Any]:
    entry = cluster(envoy_bootstrap(settings(epp_tls=True, epp_identity=identity)), "epp")
    return dict(entry["transport_socket"]["typed_config"])


def test_any_certificate_of_a_picker_will_do_unless_a_ca_is_named() -> None:
    context = validation_of_pickers(None)

    assert context["common_tls_context"]["validation_context"] == {}
    assert "sni" not in context


@pytest.mark.parametrize(
    ("name", "kind", "sni"),
    [
        ("epp.models.svc", "DNS", "epp.models.svc"),
        ("10.0.0.1", "IP_ADDRESS", None),
        ("fd00::1", "IP_ADDRESS", None),
    ],
)
def test_a_picker_is_known_by_ca_and_name(name: str, kind: str, sni: str | None) -> None:
    context = validation_of_pickers(PickerIdentity(ca_file="/ca.crt", name=name))

    assert context["common_tls_context"]["validation_context"] == {
        "trusted_ca": {"filename": "/ca.crt"},
        "match_typed_subject_alt_names": [{"san_type": kind, "matcher": {"exact": name}}],
    }
    assert context.get("sni") == sni


def test_a_clients_head_has_to_come_soon_however_long_generation_takes() -> None:
    manager = connection_manager(envoy_bootstrap(settings(idle_timeout_seconds=3600.0)))

    assert manager["request_headers_timeout"] == "30s"
    assert manager["stream_idle_timeout"] == "3600s"


@pytest.mark.parametrize("fail_open", [False, True], ids=["fail close", "fail open"])
def test_a_client_can_name_neither_its_destination_nor_other_hosts(fail_open: bool) -> None:
    manager = connection_manager(envoy_bootstrap(settings(fail_open=fail_open)))

    (mutation,) = manager["early_header_mutation_extensions"]
    assert {each["remove"] for each in mutation["typed_config"]["mutations"]} == {
        "x-gateway-destination-endpoint",
        "x-gateway-destination-endpoint-served",
        "x-gateway-destination-endpoint-subset",
        "x-prefiller-host-port",
        "x-prefiller-url",
        "x-encoder-hosts-ports",
        "x-data-parallel-host-port",
        "x-kv-cache-source-host-port",
    }


@pytest.mark.parametrize(
    ("app_protocol", "expected"),
    [
        (AppProtocol.HTTP, {"http_protocol_options": {"enable_trailers": True}}),
        (AppProtocol.H2C, {"http2_protocol_options": {}}),
    ],
    ids=["http", "h2c"],
)
def test_model_servers_are_spoken_to_in_the_pools_protocol(
    app_protocol: AppProtocol, expected: dict[str, Any]
) -> None:
    bootstrap = envoy_bootstrap(settings(fail_open=True, app_protocol=app_protocol))

    assert upstream_protocol(cluster(bootstrap, "picked_endpoint")) == expected
    assert upstream_protocol(cluster(bootstrap, "pool_fallback")) == expected


def test_every_replica_is_a_host_of_the_picker_cluster() -> None:
    pickers = (Address("127.0.0.1", 9002), Address("127.0.0.1", 9012))

    entry = cluster(envoy_bootstrap(settings(pickers=pickers)), "epp")

    assert hosts(entry) == list(pickers)
    assert entry["type"] == "STATIC"
    assert entry["common_lb_config"] == {
        "healthy_panic_threshold": {"value": 0},
        "update_merge_window": "0s",
    }


def test_a_name_is_resolved_by_dns() -> None:
    entry = cluster(envoy_bootstrap(settings(pickers=(Address("epp.ns.svc", 9002),))), "epp")

    assert entry["type"] == "STRICT_DNS"
    assert entry["dns_lookup_family"] == "V4_PREFERRED"


def test_tls_to_the_picker_comes_with_a_protocol_for_its_health_check() -> None:
    plain = cluster(envoy_bootstrap(settings(epp_tls=False)), "epp")
    secured = cluster(envoy_bootstrap(settings(epp_tls=True)), "epp")

    assert "transport_socket" not in plain
    assert secured["transport_socket"]["name"] == "envoy.transport_sockets.tls"
    context = secured["transport_socket"]["typed_config"]["common_tls_context"]
    assert context["tls_params"] == {"tls_maximum_protocol_version": "TLSv1_3"}
    assert context["alpn_protocols"] == ["h2"]
    assert secured["health_checks"][0]["tls_options"] == {"alpn_protocols": ["h2"]}


@pytest.mark.parametrize("fail_open", [False, True], ids=["fail close", "fail open"])
def test_a_request_may_be_idle_everywhere_for_the_same_time(fail_open: bool) -> None:
    bootstrap = envoy_bootstrap(settings(fail_open=fail_open, idle_timeout_seconds=90.0))

    assert connection_manager(bootstrap)["stream_idle_timeout"] == "90s"
    assert {route["route"]["idle_timeout"] for route in routes(bootstrap)} == {"90s"}
    assert {route["route"]["timeout"] for route in routes(bootstrap)} == {"0s"}


def test_fail_open_waits_for_a_pick_as_long_as_it_is_told() -> None:
    bootstrap = envoy_bootstrap(settings(fail_open=True, pick_timeout_seconds=0.25))

    assert ext_proc(bootstrap)["message_timeout"] == "0.25s"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(600, "600s"), (0.25, "0.25s"), (1e-9, "0.000000001s"), (9e9, "9000000000s"), (0, "0s")],
)
def test_durations_have_no_exponent(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("fail_open", [False, True], ids=["fail close", "fail open"])
def test_no_cluster_has_the_limits_that_envoy_is_born_with(fail_open: bool) -> None:
    bootstrap = envoy_bootstrap(settings(fail_open=fail_open))

    for entry in bootstrap["static_resources"]["clusters"]:
        (limits,) = entry["circuit_breakers"]["thresholds"]
        for name in ("max_connections", "max_pending_requests", "max_requests"):
            assert limits[name] > 1024


def test_admin_and_access_log_exist_only_when_asked_for() -> None:
    without = envoy_bootstrap(settings())
    bootstrap = envoy_bootstrap(
        settings(admin=Address("127.0.0.1", 19000), access_log="access.log")
    )

    assert "admin" not in without
    assert "access_log" not in connection_manager(without)
    assert bootstrap["admin"]["address"]["socket_address"]["port_value"] == 19000
    assert connection_manager(bootstrap)["access_log"][0]["typed_config"]["path"] == "access.log"


@pytest.mark.parametrize(
    ("address", "text"),
    [(Address("10.0.0.1", 80), "10.0.0.1:80"), (Address("fd00::1", 80), "[fd00::1]:80")],
)
def test_an_address_reads_as_in_a_url(address: Address, text: str) -> None:
    assert str(address) == text


@pytest.mark.parametrize("fail_open", [False, True])
def test_clients_may_name_their_requests_and_are_told_the_name(fail_open: bool) -> None:
    manager = connection_manager(envoy_bootstrap(settings(fail_open=fail_open)))

    assert manager["preserve_external_request_id"] is True
    assert manager["always_set_request_id_in_response"] is True


@pytest.mark.parametrize("fail_open", [False, True])
def test_of_websocket_sessions_the_picker_sees_headers_alone(fail_open: bool) -> None:
    bootstrap = envoy_bootstrap(settings(fail_open=fail_open))

    (upgrade,) = connection_manager(bootstrap)["upgrade_configs"]
    ext_proc_of_upgrades, router = upgrade["filters"]
    own, usual = dict(ext_proc_of_upgrades["typed_config"]), ext_proc(bootstrap)
    assert upgrade["upgrade_type"] == "websocket"
    assert router == connection_manager(bootstrap)["http_filters"][-1]
    assert own.pop("processing_mode") == {
        "request_header_mode": "SEND",
        "request_body_mode": "NONE",
        "request_trailer_mode": "SKIP",
        "response_header_mode": "SEND",
        "response_body_mode": "NONE",
        "response_trailer_mode": "SKIP",
    }
    assert own == {name: value for name, value in usual.items() if name != "processing_mode"}


def test_model_servers_that_speak_http2_are_offered_no_websocket() -> None:
    bootstrap = envoy_bootstrap(settings(app_protocol=AppProtocol.H2C))

    assert "upgrade_configs" not in connection_manager(bootstrap)
