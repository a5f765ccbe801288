"""The programming model: agents, handlers, contexts, state, subscriptions, and the protocol of the runtime."""
