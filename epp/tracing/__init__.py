"""OpenTelemetry spans of sampled requests, built from what was kept of them when they are over."""
