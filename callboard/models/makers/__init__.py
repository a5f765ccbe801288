"""Clients of makers' own APIs: Anthropic's, Google's, Amazon's, and OpenAI's Responses.

Makers offer OpenAI's chat API beside their own, but not all of it: signatures of thoughts, counts of cached and reasoning
tokens, citations and the makers' own arguments are only in theirs. Each of these APIs changes every few weeks, with models
that refuse what those before them wanted. So what turns a conversation into a request of such an API, and its answer back,
is the model layer of pydantic-ai: it is typed, keeps what makers want sent back, sorts errors by kind, and loads what one
maker needs alone. LiteLLM is twice as large and fetches prices when it is imported; any-llm brings a chat API of its own.

Only this layer is taken, none of its agents: one request goes in, one answer comes out. What agents rely on is ours and the
same for every client: how often is asked (the packages' own attempts are off), corrections of answers that can't be used,
charges of requests that ended early, budgets, records, and errors that the bus knows. A conversation is first written
as `callboard.models.openai.chat_request` has it, with its rules for system messages and ends; `translation` turns that into
pydantic-ai's messages, and `answers` its responses into `ServerAnswer` and chunks.

The packages are loaded in a thread with the first request: about two seconds and 80 MB, in processes that ask only.
"""
