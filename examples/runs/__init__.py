"""The samples of AG2's RFC 001, which asked for a global `run`."""
