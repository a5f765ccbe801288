"""The digest job of `callboard demo`, to run by hand.

```
callboard up examples.digest:app
callboard tail examples.digest:app results
```

The app ships with the package so that the demo works after an installation; read it in `actors/demo/app.py`.
"""

from actors.demo.app import app

__all__ = ["app"]
