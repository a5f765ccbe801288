"""Worker processes, and what keeps them running."""
