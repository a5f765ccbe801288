"""Who is handed over to, and when: conditions and targets, with AG2's names."""
