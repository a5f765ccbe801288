from .console import Console as Console
from .errors import NoResultError as NoResultError
from .input_manager import UserInputManager as UserInputManager

__all__: list[str]
