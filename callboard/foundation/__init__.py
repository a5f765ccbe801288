"""The base of every other package of Callboard; it imports none of them."""
