"""Bundled plugins."""
