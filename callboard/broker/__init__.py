"""Delivery: messages are handled once in effect, in order per agent, whatever dies.

Every name is loaded when it is first used, and the Redis half lives in `callboard.broker.redis`.
"""

from __future__ import annotations

import lazy_loader

if __name__ != "callboard.broker":
    raise ImportError(
        "this folder is the source of `callboard.broker`: import that, so that nothing is loaded twice"
    )

# Names and where they live: __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
