"""What `epp doctor` looks at, one thing a module."""
