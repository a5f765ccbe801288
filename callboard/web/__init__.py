"""Doors: runs of an app over HTTP. It needs the extra `web`, and loads it when `asgi` is called."""

from __future__ import annotations

import lazy_loader

# Names and where they live: __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
