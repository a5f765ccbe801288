"""The store in Chroma: its configuration, the memory itself, the collection behind it and the lock of its folder."""
