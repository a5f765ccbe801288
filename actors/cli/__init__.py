"""The command line. One module per command; what a command needs is imported when it runs.

| exit code | meaning |
|---|---|
| 0 | done; for `up` and `worker`: drained |
| 1 | it failed, and stderr says why in one sentence |
| 2 | the command can't be what was meant: an option, a module, an agent type or a field is wrong |
| 3 | the server can't be reached or started |
| 4 | no reply in time |
| 130 | stopped by Ctrl-C; for `up` and `worker`: by a second signal, at once |
| 141 | whoever read the output closed it |
"""

from .main import main

__all__ = ["main"]
