"""A pool of a real API server behind a real Envoy, as clients with their own libraries see it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import openai
import pytest

from epp.standalone.envoy_clusters import Address
from tests.fakes.pickers.applications import TAKING_TURNS
from tests.fakes.pickers.gateway_client import Answer, gateway_client
from tests.fakes.programs.load import Load
from tests.fakes.programs.processes import MODEL, Picker, PortSource
from tests.fakes.programs.program import wait_until
from tests.fakes.programs.scripted_server import EVENT_STREAM, Gate, Received, Reply, ScriptedServer
from tests.kube.caller import Caller
from tests.kube.gateway import ClusterStack, Models, ModelServer, endpoints_of, pool_of
from tests.kube.harness import ControlPlane
from tests.kube.installation import (
    Manifests,
    flags_of,
    install_manifests,
    rendered,
    rendered_as_documented,
)

pytestmark = pytest.mark.slow

BODY = json.dumps({"model": MODEL, "prompt": "Hello", "max_tokens": 1}).encode()
JSON = {"content-type": "application/json"}
PATH = "/v1/completions"
SERVED = "x-gateway-destination-endpoint-served"
REASON = "x-llm-d-request-dropped-reason"

MakeStack = Callable[..., ClusterStack]


@pytest.fixture(scope="module")
def ports() -> PortSource:
    return PortSource()


@pytest.fixture(scope="module")
def servers(
    tmp_path_factory: pytest.TempPathFactory, ports: PortSource
) -> Iterator[list[ModelServer]]:
    """Three pods with one port, and a second port of the first pod."""
    folder = tmp_path_factory.mktemp("servers")
    first, second = ports.take(), ports.take()
    places = [Address(f"127.0.0.{number}", first) for number in (11, 12, 13)]
    places.append(Address("127.0.0.11", second))
    servers = [ModelServer(f"server-{place}", folder, place) for place in places]
    try:
        for server in servers:
            server.start()
        for server in servers:
            assert server.address() == server.at
        yield servers
    finally:
        for server in servers:
            server.kill()


@pytest.fixture
def models(admin: Caller, namespace: str) -> Models:
    return Models(admin, namespace, "model-servers")


@pytest.fixture
def make_stack(
    admin: Caller, control_plane: ControlPlane, namespace: str, ports: PortSource, tmp_path: Path
) -> Iterator[MakeStack]:
    """Installs manifests, and starts pickers as their Deployment does, with Envoy in front."""
    with ExitStack() as stacks:

        def make(
            *flags: str, manifests: Manifests | None = None, pickers: int = 1, tls: bool = True
        ) -> ClusterStack:
            shipped = manifests or rendered("base", namespace, tmp_path)
            account = install_manifests(shipped, admin, control_plane, tmp_path)
            kubeconfig = control_plane.kubeconfig(account.token())
            where = [f"--pool-namespace={namespace}", f"--kubeconfig={kubeconfig}"]
            # Which endpoint is best is not what this is about: all of them serve in turn.
            picker_flags = [*flags_of(shipped), *where, f"--config-text={TAKING_TURNS}", *flags]
            stack = ClusterStack(tmp_path, ports, picker_flags, pickers=pickers, tls=tls)
            return stacks.enter_context(stack)

        yield make


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a client got."""

    status: int
    headers: Mapping[str, str]


def ask(stack: ClusterStack) -> Outcome:
    """One request."""
    try:
        raw = stack.client.completions.with_raw_response.create(
            model=MODEL, prompt="Hello", max_tokens=1
        )
    except openai.APIStatusError as error:
        return Outcome(status=error.status_code, headers=error.response.headers)
    assert raw.parse().choices[0].text
    return Outcome(status=raw.status_code, headers=raw.headers)


def served(stack: ClusterStack) -> str:
    """The endpoint that served one more request."""
    return ask(stack).headers[SERVED]


def assert_served_by(stack: ClusterStack, *addresses: Address) -> None:
    """All of them serve, one after the other, and nobody else does."""
    wanted = {str(address) for address in addresses}
    seen: set[str] = set()

    def is_complete() -> bool:
        seen.add(served(stack))
        assert seen <= wanted
        return seen == wanted

    wait_until(is_complete, f"{wanted} serve")


def wait_for_endpoints(picker: Picker, *addresses: Address) -> None:
    wanted = {str(address) for address in addresses}
    wait_until(lambda: endpoints_of(picker) == wanted, f"endpoints {wanted}", picker)


def test_requests_are_spread_over_the_ready_pods(
    models: Models, servers: list[ModelServer], make_stack: MakeStack
) -> None:
    models.create_pool(servers[0].at.port)
    for number, server in enumerate(servers[:3]):
        models.add_pod(f"pod-{number}", server.at.host)
    models.add_pod("not-ready", "127.0.0.14", ready=False)
    stack = make_stack()
    before = [server.requests_served() for server in servers[:3]]

    answered = {served(stack) for _ in range(30)}
    events = stack.client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "Hello"}],
        max_completion_tokens=5,
        stream=True,
    )
    words = [event for event in events if event.choices[0].delta.content]

    assert answered == {str(server.at) for server in servers[:3]}
    after = [server.requests_served() for server in servers[:3]]
    assert sum(after) - sum(before) == 31
    assert all(new > old for new, old in zip(after, before, strict=True))
    assert len(words) > 1


def test_traffic_follows_pods_that_lose_readiness_go_and_come_back_elsewhere(
    models: Models, servers: list[ModelServer], make_stack: MakeStack
) -> None:
    first, second, third, _ = servers
    models.create_pool(first.at.port)
    models.add_pod("a", first.at.host)
    models.add_pod("b", second.at.host)
    stack = make_stack()
    wait_for_endpoints(stack.picker, first.at, second.at)

    models.set_status("a", first.at.host, ready=False)
    wait_for_endpoints(stack.picker, second.at)
    before = first.requests_served()
    assert_served_by(stack, second.at)

    models.delete_pod("a")
    models.add_pod("a", third.at.host)
    wait_for_endpoints(stack.picker, second.at, third.at)
    assert_served_by(stack, second.at, third.at)

    models.ask_for_deletion("b")
    wait_for_endpoints(stack.picker, third.at)
    assert_served_by(stack, third.at)
    assert first.requests_served() == before

    models.set_status("a", first.at.host)
    wait_for_endpoints(stack.picker, first.at)
    assert_served_by(stack, first.at)


def test_a_target_port_that_is_added_is_served(
    models: Models, servers: list[ModelServer], make_stack: MakeStack
) -> None:
    first, second = servers[0].at, servers[3].at
    models.create_pool(first.port)
    models.add_pod("a", first.host)
    stack = make_stack()
    assert_served_by(stack, first)

    models.change_pool(targetPorts=[{"number": first.port}, {"number": second.port}])
    wait_for_endpoints(stack.picker, first, second)
    assert_served_by(stack, first, second)

    models.change_pool(targetPorts=[{"number": second.port}])
    wait_for_endpoints(stack.picker, second)
    assert_served_by(stack, second)


def test_another_selector_moves_traffic_without_losing_a_request(
    models: Models, servers: list[ModelServer], make_stack: MakeStack
) -> None:
    models.create_pool(servers[0].at.port)
    places = {"llama": servers[0].at, "qwen": servers[1].at}
    for app, place in places.items():
        models.add_pod(app, place.host, app=app)
    stack = make_stack()

    with Load(f"{stack.url}{PATH}", BODY) as load:
        load.wait_for_more("200")
        for app in ("qwen", "llama") * 5:
            models.change_pool(selector={"matchLabels": {"app": app}})
            wait_for_endpoints(stack.picker, places[app])
            assert_served_by(stack, places[app])
            load.wait_for_more("200", 5)

    assert set(load.outcomes) == {"200"}


def test_another_failure_mode_holds_at_once(models: Models, make_stack: MakeStack) -> None:
    """An overloaded picker shows its mode: it rejects, or picks without a look at the body."""
    gate = Gate()

    def hold(request: Received, reply: Reply) -> None:
        reply.start(EVENT_STREAM)
        reply.piece(b"data: 1\n\n")
        gate.wait()
        reply.end()

    def set_mode(mode: str) -> None:
        models.change_pool(endpointPickerRef={"failureMode": mode})
        wait_until(lambda: pool_of(stack.picker)["failureModeInForce"] == mode, mode)

    with ScriptedServer() as server, ExitStack() as held:
        models.create_pool(server.address.port)
        models.add_pod("a", server.address.host)
        stack = make_stack("--max-streams=2")
        server.script = hold
        for _ in range(2):
            url = f"{stack.url}{PATH}"
            held.enter_context(httpx.stream("POST", url, content=BODY, headers=JSON))
        server.script = lambda request, reply: reply.whole(b'{"choices": [{"text": "Hi"}]}')
        closed = ask(stack)
        set_mode("FailOpen")
        opened = ask(stack)
        set_mode("FailClose")
        closed_again = ask(stack)
        gate.open()

    assert [answer.status for answer in (closed, opened, closed_again)] == [503, 200, 503]
    assert "retry-after" in closed.headers
    assert "retry-after" in closed_again.headers
    assert opened.headers[SERVED] == str(server.address)


def test_no_request_fails_while_the_api_server_is_frozen_or_gone(
    models: Models, servers: list[ModelServer], make_stack: MakeStack, control_plane: ControlPlane
) -> None:
    first, second = servers[0].at, servers[1].at
    models.create_pool(first.port)
    models.add_pod("a", first.host)
    stack = make_stack()

    with Load(f"{stack.url}{PATH}", BODY) as load:
        control_plane.freeze()
        try:
            load.wait_for_more("200", 100)
        finally:
            control_plane.thaw()
        control_plane.kill()
        try:
            stack.picker.wait_for_line("API server is unreachable")
            load.wait_for_more("200", 100)
        finally:
            control_plane.start()
        models.add_pod("b", second.host)
        wait_for_endpoints(stack.picker, first, second)
        assert_served_by(stack, first, second)

    assert set(load.outcomes) == {"200"}


def test_a_pool_without_a_ready_pod_says_why_it_refuses(
    models: Models, servers: list[ModelServer], make_stack: MakeStack
) -> None:
    place = servers[0].at
    models.create_pool(place.port)
    models.add_pod("a", place.host, ready=False)
    stack = make_stack()

    refused = ask(stack)
    models.set_status("a", place.host)
    wait_for_endpoints(stack.picker, place)
    answered = ask(stack)
    models.change_pool(selector={"matchLabels": {"app": "nobody"}})
    wait_for_endpoints(stack.picker)
    refused_again = ask(stack)

    assert [each.status for each in (refused, answered, refused_again)] == [503, 200, 503]
    assert refused.headers[REASON] == refused_again.headers[REASON] == "rejected-no-endpoints"


def test_requests_of_a_pool_that_was_deleted_are_refused_until_there_is_another(
    models: Models, servers: list[ModelServer], make_stack: MakeStack
) -> None:
    place = servers[0].at
    models.create_pool(place.port)
    models.add_pod("a", place.host)
    stack = make_stack(tls=False)
    assert_served_by(stack, place)

    models.delete_pool()
    wait_until(lambda: pool_of(stack.picker)["pool"] is None, "the pool is gone", stack.picker)
    assert ask(stack).status == 503
    # Envoy may have noticed that no picker is ready, and not have asked: its answer has no reason.
    refused = asyncio.run(answer_of(stack.picker))
    wait_until(lambda: not stack.gateway.checked_pickers(), "no healthy picker")
    assert ask(stack).status == 503

    models.create_pool(place.port)
    wait_until(lambda: ask(stack).status == 200, "it is served again", stack.picker)

    assert refused.status == 503
    assert refused.set_headers[REASON] == b"rejected-no-endpoints"


async def answer_of(picker: Picker) -> Answer:
    """What the picker answers to a gateway that still asks it."""
    async with gateway_client(picker.ext_proc.port) as gateway:
        exchange = gateway.exchange()
        await exchange.post(BODY)
        while (answer := await exchange.answer()).kind == "request_headers":
            assert answer.destination is None
        return answer


def leader_of(stack: ClusterStack) -> Picker:
    """The one picker that is ready, once Envoy knows it, too."""

    def is_alone() -> bool:
        ready = {each.ext_proc for each in stack.pickers if pool_of(each).get("ready")}
        return len(ready) == 1 and stack.gateway.checked_pickers() == ready

    wait_until(is_alone, "one picker leads")
    (leader,) = [each for each in stack.pickers if pool_of(each).get("ready")]
    return leader


@pytest.fixture
def replicas(
    namespace: str, admin: Caller, servers: list[ModelServer], make_stack: MakeStack, tmp_path: Path
) -> tuple[ClusterStack, Picker, Picker]:
    """Two pickers of one pool: the leader, and the other one."""
    models = Models(admin, namespace, "llama")
    models.create_pool(servers[0].at.port)
    models.add_pod("a", servers[0].at.host)
    manifests = rendered_as_documented("overlays/ha", namespace, tmp_path)
    stack = make_stack(manifests=manifests, pickers=2)
    first = leader_of(stack)
    (second,) = [picker for picker in stack.pickers if picker is not first]
    wait_until(lambda: bool(endpoints_of(second)), "the other one knows the pool", second)
    return stack, first, second


def test_another_replica_takes_over_from_a_leader_that_dies_or_shuts_down(
    replicas: tuple[ClusterStack, Picker, Picker],
) -> None:
    stack, first, second = replicas
    assert pool_of(second)["notReadyReasons"] == ["this replica is not the leader"]
    assert ask(stack).status == 200

    first.kill()
    assert leader_of(stack) is second
    assert ask(stack).status == 200

    first.start()
    wait_until(lambda: bool(endpoints_of(first)), "the other one is back", first)
    assert leader_of(stack) is second
    assert second.stop() == 0
    assert "lease released" in second.output()
    assert leader_of(stack) is first
    assert ask(stack).status == 200


def test_a_leader_that_freezes_is_replaced_and_claims_nothing_when_it_thaws(
    replicas: tuple[ClusterStack, Picker, Picker],
) -> None:
    stack, first, second = replicas

    first.pause()
    try:
        wait_until(lambda: bool(pool_of(second).get("ready")), "the other one leads", second)
        wait_until(lambda: ask(stack).status == 200, "an answer of the new leader", second)
    finally:
        first.resume()

    assert not pool_of(first).get("ready")
    assert pool_of(second)["ready"]
    assert ask(stack).status == 200
