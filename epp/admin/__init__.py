"""The HTTP ports: metrics for Prometheus, pages for operators."""
