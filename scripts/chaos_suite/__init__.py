"""The code of scripts/chaos: see __main__.py, and docs/reliability.md."""
