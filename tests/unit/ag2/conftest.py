from tests.unit.groupchat.conftest import _quiet, stream

__all__ = ["_quiet", "stream"]
