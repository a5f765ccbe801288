"""Checks of what an assistant is asked, what its model wants to call, and what it is about to say."""
