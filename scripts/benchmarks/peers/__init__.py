"""Other frameworks with the same work, each installed into a folder of its own: `scripts/bench --peers`."""
