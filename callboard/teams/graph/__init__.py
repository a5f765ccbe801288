"""Graphs of members: nodes, edges, their checks, and a builder."""
