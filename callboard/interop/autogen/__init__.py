"""Programs and teams of the real `autogen-core` and `autogen-agentchat`, on our bus.

They need the extra `autogen`. Everything is loaded when it is first used.
"""

from __future__ import annotations

import lazy_loader

# Names and where they live: __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
