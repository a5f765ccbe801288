"""The roles of an environment, and who gets what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .errors import DuplicateRoleError, RoleDeclarationError, UnknownRoleError
from .names import MESSAGE_ROUTES
from .role import Role
from .routing import Routing


class Cast:
    """Roles by name."""

    def __init__(self) -> None:
        self._roles: dict[str, Role] = {}
        self._routing: Routing | None = None

    def add_role(self, role: Role) -> None:
        """Add a role.

        Raises:
            DuplicateRoleError: There is one of its name, or of its class when it has no name (a ValueError).
            RoleDeclarationError: Its name is one of those that stand for all, none or oneself (a ValueError).
        """
        if role.name in MESSAGE_ROUTES:
            raise RoleDeclarationError(
                "a role", f"can't be called {role.name!r}: to that name everybody listens, or nobody"
            )
        # guard: no role takes the place of another
        if role.agent_type in self._roles:
            raise DuplicateRoleError(role.agent_type)
        self._roles[role.agent_type] = role
        self._routing = None

    def add_roles(self, roles: Iterable[Role]) -> None:
        """Add several; see `add_role`."""
        for role in roles:
            self.add_role(role)

    @property
    def roles(self) -> Mapping[str, Role]:
        """The roles by name."""
        return dict(self._roles)

    def get_roles(self) -> dict[str, Role]:
        """The roles by name."""
        return dict(self._roles)

    def get_role(self, name: str) -> Role:
        """One of them, by a name that it has in `send_to`.

        Raises:
            UnknownRoleError: There is none (a LookupError).
        """
        found = self.routing.type_called(name)
        if not found:
            raise UnknownRoleError(name, tuple(self._roles))
        return self._roles[found]

    def role_names(self) -> list[str]:
        """What the roles are called."""
        return list(self._roles)

    @property
    def routing(self) -> Routing:
        """Who gets what."""
        if self._routing is None:
            self._routing = Routing(role.post for role in self._roles.values())
        return self._routing
