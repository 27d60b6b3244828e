"""The pool without Kubernetes."""
