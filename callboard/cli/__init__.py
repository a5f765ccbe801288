"""The command line: the commands in commands/, and beside it the helpers that they share.

| exit code | meaning |
|---|---|
| 0 | done; for `up` and `worker`: drained |
| 1 | it failed, and stderr says why in one sentence |
| 2 | wrong use: an option, a module, an agent type or a field does not exist or does not fit |
| 3 | the server can't be reached or started |
| 4 | no reply in time |
| 130 | stopped by Ctrl-C; for `up` and `worker`: by a second signal, at once |
| 141 | the reader of the output closed it |
"""

from .main import main

__all__ = ["main"]
