"""The options of `callboard demo` that are about a model, and a first question that shows whether it can be used."""

from __future__ import annotations

import os

from callboard.cli.exits import BAD_USE, FAILED, UNREACHABLE, CommandFailed
from callboard.models import ModelError, UserMessage
from callboard.models.stores import Store

from .model import ModelChoice, price_from


def chosen_model(model: str | None, tokens: int | None, price: str | None) -> ModelChoice | None:
    """The model that the options choose; None: none.

    Args:
        model: Its name.
        tokens: Most tokens that it may use; None: no limit.
        price: USD for a million tokens, read and written, such as `0.15/0.60`; None: not known.

    Raises:
        CommandFailed: The options do not fit, or the environment does not say where the model is.
    """
    if model is None:
        if tokens is not None or price is not None:
            raise CommandFailed("--tokens and --price are about a model: give --model NAME too", BAD_USE)
        return None
    if not (os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")):
        sentence = (
            f"no server is configured for the model {model!r}: set OPENAI_API_KEY, or OPENAI_BASE_URL to the address of "
            "any server with OpenAI's API, such as http://127.0.0.1:8080/v1"
        )
        raise CommandFailed(sentence, BAD_USE)
    try:
        return ModelChoice(model, tokens, None if price is None else price_from(price))
    except ValueError:
        sentence = (
            f"{price!r} is no price: write USD for a million tokens read and written, such as 0.15/0.60"
        )
        raise CommandFailed(sentence, BAD_USE) from None


async def try_model(model: ModelChoice, store: Store) -> None:
    """Ask for one word, so that a wrong key or address is one sentence and not thirty failed messages.

    Args:
        model: To be tried.
        store: Where the usage of the whole job is added up.

    Raises:
        CommandFailed: It can't be used.
    """
    try:
        async with model.client(store, max_retries=0) as client:
            await client.create([UserMessage(content="Answer with the word yes.", source="demo")])
    except ModelError as error:
        code = UNREACHABLE if error.is_outage else FAILED
        raise CommandFailed(f"the model can't be used: {error}", code) from error
