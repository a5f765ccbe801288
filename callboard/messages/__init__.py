"""Messages of agents and teams: chat messages, events, and how they are written. All is loaded when it is first used."""

from __future__ import annotations

import lazy_loader

# Names and where they live: __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
