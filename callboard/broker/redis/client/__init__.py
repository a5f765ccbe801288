"""One process's connections to a server: publishing, replies, and lines for workers."""
