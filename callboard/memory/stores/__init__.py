"""Memories that keep contents: a list, and stores with records. `base` has the interface of a store."""
