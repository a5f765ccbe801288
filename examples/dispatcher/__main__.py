from __future__ import annotations

import asyncio

from .app import main

asyncio.run(main())
