"""Our errors as AutoGen's programs know them, and AutoGen's in other processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from callboard.broker.encoding.remote_errors import register_error
from callboard.errors import CantHandleException, NotAccessibleError, UndeliverableException

from .errors import UnportableMessageError, UnsavableAgentError
from .real import errors


def register_their_errors() -> None:
    """Makes AutoGen's errors, and those of hosting, come back from other processes as themselves."""
    register_error(
        errors.CantHandleException,
        errors.UndeliverableException,
        errors.MessageDroppedException,
        errors.NotAccessibleError,
        UnportableMessageError,
        UnsavableAgentError,
    )


@contextmanager
def as_theirs() -> Iterator[None]:
    """Raises AutoGen's errors where ours have one of the same meaning."""
    try:
        yield
    except UndeliverableException as error:
        raise errors.UndeliverableException(str(error)) from error
    except CantHandleException as error:
        raise errors.CantHandleException(str(error)) from error
    except NotAccessibleError as error:
        raise errors.NotAccessibleError(str(error)) from error
