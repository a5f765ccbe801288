"""Mending a namespace: what is wrong inside it, and setting it right while workers go on."""

from .faults import KINDS, Fault
from .mending import Repair, find, repair

__all__ = ["KINDS", "Fault", "Repair", "find", "repair"]
