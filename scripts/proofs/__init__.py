"""What scripts/proof runs: the searches of the tests with wider bounds and for longer."""
