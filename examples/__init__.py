"""Small apps that run: `counting` (hello, world) and `digest` (what `callboard demo` runs)."""
