"""What is said to be in force."""

from __future__ import annotations

import pytest

from callboard.code import Confinement, ConfinementError
from callboard.code.launcher import LANDLOCK, MEASURES, NAMESPACES, PROC, SECCOMP


@pytest.mark.parametrize(
    ("measures", "landlock", "missing"),
    [
        (MEASURES, 7, ()),
        ((), 0, ("network", "writing", "reading", "processes", "memory")),
        ((SECCOMP, LANDLOCK), 7, ("processes",)),
        ((SECCOMP, LANDLOCK), 2, ("writing", "processes")),
        ((NAMESPACES, PROC), 0, ("network", "writing", "reading", "memory")),
        ((NAMESPACES, LANDLOCK), 7, ("network", "writing", "reading", "memory")),
        ((NAMESPACES, SECCOMP), 0, ("reading",)),
    ],
)
def test_measures_and_what_they_come_to(
    measures: tuple[str, ...], landlock: int, missing: tuple[str, ...]
) -> None:
    confinement = Confinement.of(measures, landlock=landlock)
    assert confinement.missing == missing
    confinement.require(False)
    if missing:
        with pytest.raises(ConfinementError) as caught:
            confinement.require(True)
        assert caught.value.missing == missing
        assert f"not in force: {', '.join(missing)}" in str(confinement)
    else:
        confinement.require(True)


def test_a_network_that_is_allowed_is_not_confined() -> None:
    confinement = Confinement.of(MEASURES, landlock=7, network=True)
    assert confinement.missing == ("network",)
    confinement.require(["writing", "reading"])
    with pytest.raises(ConfinementError):
        confinement.require(["network"])
