"""Webhooks: others are told what becomes of runs, and what others tell becomes messages.

Workers send what leaves, and need the extra `http` there; what comes in comes to a door, see `callboard.web`.
"""

from __future__ import annotations

import lazy_loader

# Names and where they live: __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
