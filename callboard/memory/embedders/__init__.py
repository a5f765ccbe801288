"""Embedders: they turn texts into vectors. One module for each; `base` has the interface, `default` chooses one."""
