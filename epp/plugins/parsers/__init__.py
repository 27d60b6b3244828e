"""Body parsers."""
