"""One module for each check: `ORDER` says when it is made, `examine(subject)` makes it."""
