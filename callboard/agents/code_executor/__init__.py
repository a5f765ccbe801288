"""The agent that runs code, and may write it with a model."""
