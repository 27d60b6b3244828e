"""Scorers of the Acme company."""
