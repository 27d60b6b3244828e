from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from epp.framework.errors import ConfigError
from epp.kubernetes.credentials import api_client, find_credentials
from epp.kubernetes.sockets import Sockets
from tests.fakes.kubernetes.access import plain_credentials
from tests.kube.credentials import Credentials, kubeconfig

NO_POD = Path("/nonexistent")


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """The folder of a service account, as a pod has it."""
    folder = tmp_path / "mounted"
    folder.mkdir()
    files = Credentials(tmp_path)
    files.write()
    (folder / "ca.crt").write_bytes(files.ca.read_bytes())
    (folder / "token").write_text("pod-token\n")
    return folder


@pytest.mark.parametrize(
    ("host", "url"),
    [("10.96.0.1", "https://10.96.0.1:6443"), ("fd00::1", "https://[fd00::1]:6443")],
)
async def test_in_a_pod_the_service_account_is_used(mounted: Path, host: str, url: str) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "6443"}

    found = await find_credentials(environ=environ, service_account=mounted)

    assert found.configuration.host == url
    settings = await found.configuration.auth_settings()
    assert settings["BearerToken"]["value"] == "Bearer pod-token"
    assert found.read_authority() == (mounted / "ca.crt").read_bytes()


async def test_a_kubeconfig_that_was_given_wins_over_the_pod(mounted: Path, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(kubeconfig("https://other:443", mounted / "ca.crt", "user-token"))
    environ = {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}

    by_flag = await find_credentials(path, environ=environ, service_account=mounted)
    by_environment = await find_credentials(
        environ={**environ, "KUBECONFIG": str(path)}, service_account=mounted
    )

    assert by_flag.configuration.host == "https://other:443"
    assert by_environment.configuration.host == "https://other:443"


async def test_a_kubeconfig_at_home_is_the_last_resort(mounted: Path, tmp_path: Path) -> None:
    path = tmp_path / ".kube" / "config"
    path.parent.mkdir()
    path.write_text(kubeconfig("https://home:443", mounted / "ca.crt", "user-token"))
    environ = {"HOME": str(tmp_path)}

    found = await find_credentials(environ=environ, service_account=NO_POD)
    assert found.configuration.host == "https://home:443"

    environ["KUBERNETES_SERVICE_HOST"] = "10.96.0.1"
    found = await find_credentials(environ=environ, service_account=mounted)
    assert found.configuration.host == "https://10.96.0.1:443"


async def test_nowhere_to_go_is_said_with_what_would_help(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "10.96.0.1"}

    with pytest.raises(ConfigError, match="--kubeconfig or KUBECONFIG"):
        await find_credentials(environ=environ, service_account=NO_POD)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "there is no such file"),
        ("", "not a usable kubeconfig"),
        ("a: [", "while parsing"),
        ("[]", "which has clusters, users, contexts and current-context"),
        ("a: b", "current-context"),
        ("current-context: x\ncontexts: []\nclusters: []\nusers: []", "object with name x"),
        ("current-context: x\ncontexts: 1", "not a usable kubeconfig"),
    ],
    ids=["missing", "empty", "no YAML", "a list", "other", "no context", "no list"],
)
async def test_a_kubeconfig_that_is_none_is_an_error_with_its_name(
    tmp_path: Path, text: str | None, problem: str
) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)

    with pytest.raises(ConfigError) as caught:
        await find_credentials(path, environ={}, service_account=NO_POD)

    assert str(caught.value).startswith(f"kubeconfig {path}: ")
    assert problem in str(caught.value)


async def test_a_context_is_taken_by_name(mounted: Path, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(kubeconfig("https://other:443", mounted / "ca.crt", "user-token"))

    with pytest.raises(ConfigError, match="object with name production"):
        await find_credentials(path, "production", environ={}, service_account=NO_POD)
    found = await find_credentials(path, "test", environ={}, service_account=NO_POD)

    assert found.configuration.host == "https://other:443"


@pytest.mark.parametrize("missing", ["ca.crt", "token"])
async def test_half_a_service_account_is_an_error(mounted: Path, missing: str) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "HOME": "/nonexistent"}
    (mounted / missing).unlink()

    with pytest.raises(ConfigError, match="service account"):
        await find_credentials(environ=environ, service_account=mounted)


async def test_an_empty_token_is_an_error(mounted: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}
    (mounted / "token").write_text("\n")

    with pytest.raises(ConfigError, match="token is empty"):
        await find_credentials(environ=environ, service_account=mounted)


async def test_an_authority_that_is_no_certificate_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("nothing")
    credentials = plain_credentials("https://127.0.0.1:1")
    credentials.configuration.ssl_ca_cert = str(tmp_path / "ca.crt")

    with pytest.raises(ConfigError, match="certificates towards the API server"):
        api_client(credentials, "epp", Sockets().make)


async def test_a_plugin_that_hangs_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("kubernetes_asyncio.config.load_kube_config", hang)
    path = tmp_path / "kubeconfig"
    path.touch()

    with pytest.raises(ConfigError, match=r"kubeconfig: no credentials within 0\.01 s"):
        await find_credentials(path, environ={}, service_account=NO_POD, plugin_timeout=0.01)
