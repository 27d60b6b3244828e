"""A simulated model server."""
