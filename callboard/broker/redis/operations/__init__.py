"""Looking at a namespace and mending it."""
