"""A digest of real documents, made by four agent types: an example, and the job that `callboard demo` runs.

```
callboard up examples.digest:app
callboard tail examples.digest:app results
```

| module | contents |
|---|---|
| `app` | the four agents; start reading here |
| `messages` | the messages that the agents exchange |
| `steps` | the work of each agent, as pure functions |
| `documents` | files and folders into documents that fit a message |
| `markdown` | a document into sections of plain sentences |
| `text` | sentences, words and terms of any language |
| `model` | the model that words the digest, when one is chosen |
| `model_options` | the options of the demo that choose it |
| `wording` | what the model is asked, and how its answers are read |
| `scoring` | which sentences matter, and the best of them within a budget |
| `result` | the ten results into one readable digest |
| `demo` | runs the job in processes of its own and kills one of them, for `callboard demo` |
| `report` | checks the counts of such a run and shows them |

It is not part of the package `callboard`. A wheel carries a copy as data, which `callboard demo` imports from its folder.
"""

from .app import app

__all__ = ["app"]
