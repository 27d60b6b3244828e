"""Extractors of the data layer."""
