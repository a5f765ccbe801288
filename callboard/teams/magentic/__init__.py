"""What the orchestrator of a MagenticOneGroupChat asks its model, and how it reads the answers."""
