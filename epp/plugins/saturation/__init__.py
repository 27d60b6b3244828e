"""Saturation detectors."""
