"""Errors of termination conditions."""

from __future__ import annotations

from callboard.errors import ActorError


class ConditionError(ActorError):
    """The root of what is wrong with a termination condition or with how it is used."""


class TerminatedException(ConditionError, RuntimeError):
    """A condition that has been reached was asked again; it must be reset first.

    AutoGen's is a BaseException, which passes every ``except Exception`` and so takes the whole process with it, and its
    ``|`` raises a RuntimeError instead. This is an Exception, and a RuntimeError, for all conditions: programs that catch
    either of AutoGen's by name catch this one.
    """

    template = "Termination condition has already been reached"


class ConditionSettingError(ConditionError, ValueError):
    """A condition was made with a setting that can't work."""

    template = "{setting}={value} can't work: it must be {rule}."

    setting: str
    value: str
    rule: str


class ConditionStateError(ConditionError, ValueError):
    """A state was loaded that this condition did not save."""

    template = "{condition} can't load this state: {reason}"

    condition: str
    reason: str
