"""What stands on the delivery of messages, put under fire: a team, a memory service, and what commands print."""
