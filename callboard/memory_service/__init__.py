"""Long-term memory over the bus: the process that owns a store, and the memory that agents have of it."""

from __future__ import annotations

import lazy_loader

# Names and where they live: __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
