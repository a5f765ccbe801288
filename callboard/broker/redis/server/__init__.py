"""Servers that Callboard starts itself."""
