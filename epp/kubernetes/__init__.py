"""The pool and its pods, live from the API server."""
