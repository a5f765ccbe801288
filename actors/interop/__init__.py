"""Programs that were written for other frameworks, on our bus. Each package here needs the framework that it is named after."""
