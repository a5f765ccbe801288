"""Programs that were written for other frameworks, on our bus. Each package needs the framework that it is named after."""
