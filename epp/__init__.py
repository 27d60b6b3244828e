"""An Endpoint Picker (EPP) for InferencePool."""

__version__ = "0.1.0"
