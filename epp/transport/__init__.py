"""How messages reach the gateway room: gRPC servers and their credentials."""
