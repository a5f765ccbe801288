"""Delivery on Redis Streams: the only code that imports redis."""
