"""Screeners."""
