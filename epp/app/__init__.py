"""Builds every object and owns every task."""
