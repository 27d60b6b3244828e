"""Sources of the data layer."""
