"""The code of scripts/bench: see __main__.py."""
