"""The runtime: executes handlers and carries messages between agents."""
