"""Choosing among candidates."""
