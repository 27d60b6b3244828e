"""Admitters."""
