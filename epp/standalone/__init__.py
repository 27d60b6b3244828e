"""Envoy, Endpoint Picker and simulators on one machine."""
