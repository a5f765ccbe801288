"""Which addresses belong to the public internet."""

from __future__ import annotations

import pytest

from callboard.foundation.addresses import is_public
from callboard.tools import http as http_addresses
from callboard.tools.errors import CallRefusedError, ToolConnectionError
from callboard.tools.http import addresses_of, lookup


@pytest.mark.parametrize(
    "address",
    [
        "93.184.216.34",
        "8.8.8.8",
        "2606:2800:220:1:248:1893:25c8:1946",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "2002:808:808::1",
    ],
)
def test_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.255.254",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "192.0.2.1",
        "198.18.0.1",
        "::1",
        "::",
        "::7f00:1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "2002:7f00:1::1",
        "2002:c0a8:101::",
        "2001:db8::1",
    ],
)
def test_not_public(address: str) -> None:
    assert not is_public(address)


def test_teredo_is_judged_by_the_address_inside() -> None:
    assert not is_public("2001:0:4136:e378:8000:63bf:80ff:fffe")  # 127.0.0.1 inside


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.1", "0x7f000001", "2130706433"])
async def test_every_way_to_write_loopback_is_refused(host: str) -> None:
    with pytest.raises((CallRefusedError, ToolConnectionError)):
        await addresses_of(host, 80, allow_private=False)


async def test_one_private_address_among_public_ones_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    async def mixed(host: str, port: int) -> list[str]:
        return ["8.8.8.8", "10.0.0.1"]

    monkeypatch.setattr(http_addresses, "lookup", mixed)
    with pytest.raises(CallRefusedError, match=r"mixed.test has the address 10\.0\.0\.1"):
        await addresses_of("mixed.test", 80, allow_private=False)
    assert await addresses_of("mixed.test", 80, allow_private=True) == ["8.8.8.8", "10.0.0.1"]


async def test_a_name_that_nobody_knows() -> None:
    for host in ("no-such-host.invalid", "a" * 300, "x\x00y"):
        with pytest.raises(ToolConnectionError, match="its address is not known"):
            await lookup(host, 80)


async def test_addresses_are_each_there_once() -> None:
    assert await lookup("127.0.0.1", 80) == ["127.0.0.1"]
