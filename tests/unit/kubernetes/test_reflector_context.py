from __future__ import annotations

from epp.kubernetes.reflector_context import ReflectorSettings


def test_no_watch_is_trusted_for_longer_than_minutes() -> None:
    """Pitfall 37: the server is asked to end it, and given up soon after it should have."""
    settings = ReflectorSettings()
    earliest, latest = settings.watch_seconds

    assert 60 <= earliest < latest <= 600
    assert 0 < settings.watch_grace <= 60
    assert settings.silent_after < earliest
    assert 0 < settings.resync_interval <= 3600
