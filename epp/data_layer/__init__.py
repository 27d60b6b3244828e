"""When to poll whom, and what becomes of the answers."""
