"""Which addresses a host has, and whether they belong to the public internet.

A name is looked up once for each request and the connection goes to an address that was checked, so that a name server
which answers differently the second time (DNS rebinding) gains nothing.
"""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

from .errors import HttpConnectionError, HttpHostError

NAT64: Final = IPv6Network("64:ff9b::/96")
NAT64_LOCAL: Final = IPv6Network("64:ff9b:1::/48")
COMPATIBLE: Final = IPv6Network("::/96")


async def addresses_of(host: str, port: int, *, allow_private: bool) -> list[str]:
    """The addresses of a host, checked.

    Args:
        host: A name or an address.
        port: The port of the request.
        allow_private: Also take addresses outside the public internet.

    Raises:
        HttpHostError: One of them is not public. One is enough: who mixes them is up to something.
        HttpConnectionError: The name is not known.
    """
    found = await lookup(host, port)
    if not allow_private:
        for address in found:
            if not is_public(address):
                raise HttpHostError(
                    host,
                    f"{host} has the address {address}, which is private, local or reserved; no request was sent. "
                    "The person who runs this tool can allow it with HttpLimits(allow_private=True)",
                )
    return found


async def lookup(host: str, port: int) -> list[str]:
    """The addresses that the system knows for a host, each once.

    Raises:
        HttpConnectionError: None.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError) as error:
        raise HttpConnectionError(host, f"its address is not known ({error})") from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def is_public(address: str) -> bool:
    """True for an address of the public internet.

    IPv6 addresses that stand for an IPv4 one (mapped, NAT64, 6to4, Teredo) are judged by that one.
    """
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv4Address):
        return _is_public_v4(found)
    inner = _inner(found)
    if inner is not None:
        return _is_public_v4(inner)
    return found.is_global and not found.is_multicast and found not in NAT64_LOCAL and found not in COMPATIBLE


def _is_public_v4(address: IPv4Address) -> bool:
    return address.is_global and not address.is_multicast


def _inner(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    if address.sixtofour is not None:
        return address.sixtofour
    return address.teredo[1] if address.teredo is not None else None
