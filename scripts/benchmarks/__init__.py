"""What scripts/bench measures: see __main__.py."""
