"""Session affinity: how sessions are recognized, and which endpoint each is pinned to."""
