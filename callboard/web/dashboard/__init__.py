"""The dashboard: what operators see of a namespace, and do."""
