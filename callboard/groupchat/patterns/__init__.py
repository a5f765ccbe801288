"""Group chats whose agents hand over to each other: AG2's patterns."""
