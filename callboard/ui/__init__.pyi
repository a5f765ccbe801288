from .console import Console as Console
from .errors import NoResultError as NoResultError, NotAStreamError as NotAStreamError
from .input_manager import UserInputManager as UserInputManager

__all__: list[str]
