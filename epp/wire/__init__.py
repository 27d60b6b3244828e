"""Generated messages of Envoy's external-processing API."""
