from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.datastore.datastore import Datastore
from epp.datastore.snapshot import Snapshot
from epp.request_control.candidates import locate_candidates
from epp.support.addresses import canonical_ip, join_host_port
from tests.fakes.pool import pod_of, pool_of

ALL = ["10.0.0.1:8000", "10.0.0.1:8001", "10.0.0.2:8000", "10.0.0.2:8001"]
ALL += ["[fd00::1]:8000", "[fd00::1]:8001"]
IPV6 = ALL[4:]


def three_pods() -> Snapshot:
    datastore = Datastore()
    datastore.set_pool(pool_of(8000, 8001))
    datastore.set_pods(
        [pod_of("a", "10.0.0.1"), pod_of("b", "10.0.0.2"), pod_of("c", "fd00:0:0::1")]
    )
    return datastore.snapshot()


SNAPSHOT = three_pods()


def located(hint: object) -> list[str]:
    return [endpoint.address for endpoint in locate_candidates(SNAPSHOT, hint)]


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        pytest.param(None, ALL, id="absent"),
        pytest.param([], [], id="empty list"),
        pytest.param(["10.0.0.1:8001"], ["10.0.0.1:8001"], id="ip and port"),
        pytest.param(["10.0.0.1:9999"], [], id="ip of a pod and another port"),
        pytest.param(["10.0.0.9:8000"], [], id="unknown ip"),
        pytest.param(["10.0.0.1"], ALL[:2], id="ip alone: all its ports"),
        pytest.param([1, None, ["10.0.0.1"], "10.0.0.2:8000"], [ALL[2]], id="not a string"),
        pytest.param(["x", "", " , ", "10.0.0", ":8000", "[", "[]", "[]:"], [], id="all invalid"),
        pytest.param(["10.0.0.2:8000,10.0.0.1:8000"], [ALL[0], ALL[2]], id="comma list inside"),
        pytest.param("10.0.0.2:8000, 10.0.0.1:8000 ,,", [ALL[0], ALL[2]], id="string"),
        pytest.param(" 10.0.0.1:8000 ", [ALL[0]], id="blanks"),
        pytest.param("", [], id="empty string"),
        pytest.param(7.0, [], id="number"),
        pytest.param({"10.0.0.1:8000": 1}, [], id="struct"),
        pytest.param(True, [], id="boolean"),
        pytest.param(object(), [], id="what the gateway can't express"),
        pytest.param(["[fd00::1]:8001"], IPV6[1:], id="IPv6 and port"),
        pytest.param(["[FD00:0::1]:8001"], IPV6[1:], id="another spelling of it"),
        pytest.param(["fd00::1"], IPV6, id="bare IPv6"),
        pytest.param(["fd00:0:0:0:0:0:0:1"], IPV6, id="bare IPv6 written out"),
        pytest.param(["[fd00::1]"], IPV6, id="IPv6 in brackets"),
        pytest.param(["[fd00::1]:"], [], id="port missing after its colon"),
        pytest.param(["[fd00::1]8000"], [], id="colon missing before the port"),
        pytest.param(["[fd00::1"], [], id="bracket missing"),
        pytest.param(["[fd00::1]:9999"], [], id="IPv6 of a pod and another port"),
        pytest.param(["::ffff:10.0.0.1"], ALL[:2], id="IPv4 inside IPv6"),
        pytest.param(["[::ffff:10.0.0.1]:8000"], ALL[:1], id="IPv4 inside IPv6 and port"),
        pytest.param(
            ["10.0.0.2", "10.0.0.1:8000", "10.0.0.2:8001", "10.0.0.1:8000"],
            [ALL[0], ALL[2], ALL[3]],
            id="pool order, each once",
        ),
    ],
)
def test_a_hint_names_the_candidates(hint: object, expected: list[str]) -> None:
    assert located(hint) == expected


def test_without_a_hint_nothing_is_copied() -> None:
    assert locate_candidates(SNAPSHOT, None) is SNAPSHOT.endpoints


ips = st.sampled_from(["10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1", "FD00:0::1", "::1"])
ports = st.sampled_from(["", "8000", "8001", "9"])


@st.composite
def entries(draw: st.DrawFn) -> str:
    ip, port = draw(ips), draw(ports)
    if not port:
        return draw(st.sampled_from([ip, f" {ip} ", f"[{ip}]" if ":" in ip else ip]))
    return join_host_port(ip, port)


def naive(texts: list[str]) -> list[str]:
    wanted = set()
    for text in ",".join(texts).split(","):
        host, port = text.strip(), ""
        if host.count(":") == 1 or "]:" in host:
            host, _, port = host.rpartition(":")
        ip = canonical_ip(host.strip("[]"))
        wanted |= {
            e.address for e in SNAPSHOT.endpoints if e.ip == ip and port in ("", str(e.port))
        }
    return [address for address in ALL if address in wanted]


@given(st.lists(st.lists(entries(), min_size=1, max_size=3).map(",".join), max_size=4))
def test_candidates_are_those_of_a_search_through_the_pool(texts: list[str]) -> None:
    assert located(texts) == naive(texts)
    assert located(",".join(texts)) == naive(texts)


@given(st.recursive(st.none() | st.text() | st.floats() | st.just("10.0.0.1"), st.lists))
def test_no_hint_is_an_error(hint: object) -> None:
    assert set(located(hint)) <= set(ALL)
