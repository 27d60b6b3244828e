"""Envoy's external-processing protocol."""
