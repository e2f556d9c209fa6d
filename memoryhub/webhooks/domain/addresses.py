"""Addresses that a webhook may be sent to: the public Internet, and networks that a setting names.

Python's tables know the private ranges, but take multicast and translated addresses for public ones. Here an IPv6
address is public only as global unicast (2000::/3), or by the IPv4 address that it translates to.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from memoryhub.errors import DomainError, _

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MAX_URL_LENGTH: Final = 2_000
TRANSLATED: Final = IPv6Network("64:ff9b::/96")
"""NAT64 (RFC 6052): the last 32 bits are the IPv4 address that is reached."""

GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
TUNNELS: Final = tuple(map(IPv6Network, ("2001::/32", "2002::/16", "3fff::/20")))
"""Teredo and 6to4, with another address inside, and the range of documentation."""

RELAYS: Final = IPv4Network("192.88.99.0/24")


class AddressRefused(DomainError, ValueError):
    """The address of an endpoint is malformed, or is not one that may be reached."""

    field = "url"


def reached(address: Address) -> Address:
    """Return the address that a connection reaches: the IPv4 address in a mapped or translated one."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in TRANSLATED:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def is_public(address: Address) -> bool:
    address = reached(address)
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast and address not in RELAYS
    return address in GLOBAL_UNICAST and address.is_global and not any(address in network for network in TUNNELS)


def may_reach(address: Address, *, scheme: str, networks: Iterable[Network]) -> bool:
    """Return whether an address may be reached: public ones by https, those of the named networks by http as well."""
    address = reached(address)
    return any(address in network for network in networks) or (scheme == "https" and is_public(address))


def check_url(url: str, *, networks: Iterable[Network]) -> SplitResult:
    """Return the parts of an endpoint's address; raises AddressRefused.

    A name is resolved and checked with each connection; here only an address written as a number is.
    """
    networks = list(networks)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # a port that is no number, a bracket that never closes
        raise AddressRefused(MALFORMED) from None
    is_plain = url.isascii() and url.isprintable() and " " not in url and len(url) <= MAX_URL_LENGTH
    if not is_plain or parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise AddressRefused(MALFORMED)
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise AddressRefused(_("An address of a webhook has no user, password or fragment."))
    if parts.scheme == "http" and not networks:
        raise AddressRefused(_("Only https is allowed, and http to the networks in MEMORYHUB_WEBHOOK_NETWORKS."))
    try:
        address = ip_address(parts.hostname)
    except ValueError:
        return parts
    if not may_reach(address, scheme=parts.scheme, networks=networks):
        raise AddressRefused(INSIDE)
    return parts


MALFORMED: Final = _("must be an address such as https://example.org/hook, in ASCII.")
INSIDE: Final = _("This address is not public. MEMORYHUB_WEBHOOK_NETWORKS allows networks of your own.")
