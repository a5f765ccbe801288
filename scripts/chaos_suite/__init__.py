"""What scripts/chaos runs: see __main__.py, and docs/reliability.md."""
