"""The A2A door, /a2a: each service is an agent with a card, each run a task."""
