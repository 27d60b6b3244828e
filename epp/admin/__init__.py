"""The HTTP port for Prometheus and debug pages."""
