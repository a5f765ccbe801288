"""Messages as bytes, and what is refused before they are read."""
