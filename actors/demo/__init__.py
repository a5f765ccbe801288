"""The job that `callboard demo` runs: a digest of real documents, made by four agent types.

| module | what |
|---|---|
| `messages` | what the agents say to each other |
| `documents` | files and folders into documents that fit a message |
| `markdown` | a document into sections of plain sentences |
| `text` | sentences, words and terms of any language |
| `scoring` | which sentences matter, and the best of them within a budget |
| `steps` | what each agent does, as pure functions |
| `result` | the ten results into one readable digest |
| `app` | the four agents; the only module that knows of the runtime |
"""
