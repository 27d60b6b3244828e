"""The public contract: what a plugin may import."""
