"""Errors of LLM messages and model contexts.

All are ValueErrors with the data as attributes. `permanent`: another attempt would end the same way.
"""

from __future__ import annotations

from typing import Final


class ImageError(ValueError):
    """What was given is no image that a model could be sent."""

    permanent = True

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"this can't be an image: {self.reason}"


class ContextSettingError(ValueError):
    """A setting of a model context can't work.

    Attributes:
        setting: its name.
        value: what was given, as text.
        rule: what it has to be.
    """

    permanent = True

    def __init__(self, setting: str, value: str, rule: str) -> None:
        super().__init__(setting, value, rule)
        self.setting = setting
        self.value = value
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.setting}={self.value} can't work: it must be {self.rule}"


class ContextTooSmallError(ValueError):
    """The system messages and the newest exchange alone do not fit.

    Attributes:
        excess: how many tokens they have too many.
    """

    permanent = True

    def __init__(self, excess: int) -> None:
        super().__init__(excess)
        self.excess = excess

    def __str__(self) -> str:
        return (
            f"the newest messages alone have {self.excess:,} tokens too many: shorten them, raise token_limit, "
            "or use a model with a larger context"
        )


class SummaryError(ValueError):
    """A model that should have summarised a conversation answered with calls or with nothing.

    Attributes:
        messages: how many messages it was given.
    """

    def __init__(self, messages: int) -> None:
        super().__init__(messages)
        self.messages = messages

    def __str__(self) -> str:
        return (
            f"the model gave no summary of {self.messages} messages: nothing was replaced; "
            "use a model that answers with text"
        )


LLM_ERRORS: Final = (ImageError, ContextSettingError, ContextTooSmallError, SummaryError)
