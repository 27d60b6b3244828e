"""Plugins that see request and response headers."""
