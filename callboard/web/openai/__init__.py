"""The OpenAI-compatible door, /v1: each service is a model, each run a completion or a response."""
