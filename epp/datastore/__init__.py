"""The current world: the pool and its endpoints."""
