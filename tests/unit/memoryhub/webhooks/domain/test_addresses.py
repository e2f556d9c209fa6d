"""Addresses that may be reached: 40 inside the network in all their forms are not."""

from ipaddress import ip_address, ip_network

import pytest

from memoryhub.webhooks.domain.addresses import AddressRefused, check_url, is_public, may_reach, reached

INSIDE = [
    "0.0.0.0",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "127.0.0.1",
    "127.1.2.3",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:808:808::",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
]
OUTSIDE = ["1.1.1.1", "8.8.8.8", "::ffff:8.8.8.8", "64:ff9b::808:808", "2606:4700::1111"]


@pytest.mark.parametrize("address", INSIDE)
def test_address_inside_is_not_reached(address: str) -> None:
    assert not is_public(ip_address(address))
    assert not may_reach(ip_address(address), scheme="https", networks=[])


def test_forty_addresses_are_tried() -> None:
    assert len(set(INSIDE)) >= 40


@pytest.mark.parametrize("address", OUTSIDE)
def test_public_address_is_reached_by_https_alone(address: str) -> None:
    assert may_reach(ip_address(address), scheme="https", networks=[])
    assert not may_reach(ip_address(address), scheme="http", networks=[])


@pytest.mark.parametrize("address", ["10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::a01:203"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_named_network_is_reached(address: str, scheme: str) -> None:
    assert may_reach(ip_address(address), scheme=scheme, networks=[ip_network("10.1.0.0/16")])
    assert not may_reach(ip_address(address), scheme=scheme, networks=[ip_network("10.2.0.0/16")])
    assert str(reached(ip_address(address))) == "10.1.2.3"


@pytest.mark.parametrize(
    "url",
    ["", "example.org", "ftp://example.org", "https://", "https://a:b@example.org/", "https://example.org/#x",
     "https://example.org:0/", "https://example.org:99999/", "https://[::1", "https://example.org/a b",
     "https://例え.jp/", "https://example.org/" + "x" * 2_000, "https://127.0.0.1/", "https://[::ffff:10.0.0.1]/",
     "http://example.org/"],
)  # fmt: skip
def test_unusable_address_is_refused(url: str) -> None:
    with pytest.raises(AddressRefused):
        check_url(url, networks=[])


def test_usable_addresses() -> None:
    assert check_url("https://hooks.example.org:8443/a?b=c", networks=[]).port == 8443
    assert check_url("http://10.0.0.1/", networks=[ip_network("10.0.0.0/8")]).hostname == "10.0.0.1"
    assert check_url("https://8.8.8.8/", networks=[]).hostname == "8.8.8.8"
