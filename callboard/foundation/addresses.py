"""Addresses of the public internet, and requests that reach no others: for servers that a config of somebody else names.

A name is looked up for each request and the connection goes to an address that was checked, so that a name server which
answers differently the second time (DNS rebinding) gains nothing.
"""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Final

from .component import ComponentNotAllowedError, permissions

if TYPE_CHECKING:
    import httpx2

NAT64: Final = IPv6Network("64:ff9b::/96")
NAT64_LOCAL: Final = IPv6Network("64:ff9b:1::/48")
COMPATIBLE: Final = IPv6Network("::/96")


async def lookup(host: str, port: int) -> list[str]:
    """The addresses that the system knows for a host, each once.

    Raises:
        OSError: None.
        UnicodeError: It can be no name.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
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


def has_to_be_public(host: str) -> bool:
    """Whether requests to a host that the config names which is loaded now may reach public addresses only.

    False: it is among the `hosts` of `load_component`.

    Raises:
        ComponentNotAllowedError: It is not, and is a private address as it is (a ValueError).
    """
    if host in permissions().hosts:
        return False
    if is_private(host):
        raise ComponentNotAllowedError(f"reaching the private address {host}", "hosts", host)
    return True


def is_private(host: str) -> bool:
    """True for a private address, and for names of this machine; what other names stand for is seen when they are used."""
    try:
        return not is_public(host)
    except ValueError:
        return host.rstrip(".") == "localhost" or host.rstrip(".").endswith(".localhost")


async def public_addresses(host: str, port: int) -> list[str]:
    """The addresses of a host that a config names.

    Raises:
        ComponentNotAllowedError: One of them is private, local or reserved. One is enough: who mixes them is up to
            something (a ValueError).
        OSError: The name is not known.
        UnicodeError: It can be no name.
    """
    found = await lookup(host, port)
    for address in found:
        if not is_public(address):
            what = f"reaching {host}, whose address {address} is private,"
            raise ComponentNotAllowedError(what, "hosts", host)
    return found


def public_transport() -> httpx2.AsyncBaseTransport:
    """A transport of `httpx2.AsyncClient` whose requests and redirects reach public addresses only.

    Proxies of the environment are not used. Requests raise ComponentNotAllowedError.
    """
    import httpx2

    class PublicTransport(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            url = request.url
            try:
                addresses = await public_addresses(
                    url.host, url.port or (443 if url.scheme == "https" else 80)
                )
            except (OSError, UnicodeError) as error:
                raise httpx2.ConnectError(f"its address is not known ({error})", request=request) from error
            for address in addresses[:-1]:
                try:
                    return await super().handle_async_request(_to(request, address))
                except (httpx2.ConnectError, httpx2.ConnectTimeout):
                    continue
            return await super().handle_async_request(_to(request, addresses[-1]))

    def _to(request: httpx2.Request, address: str) -> httpx2.Request:
        """The request to an address of its host; the header Host stays, and the certificate has to be the host's."""
        return httpx2.Request(
            request.method,
            request.url.copy_with(host=address),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": request.url.host},
        )

    return PublicTransport()
