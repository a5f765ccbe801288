"""Documents in long-term memory: cutting them into pieces, and importing the pieces into a store."""
