"""Places in a sequence that all tenants share, as clients see them: numbers would count what others write.

A place is encrypted by a Feistel network of 52 bits, so that each has one number, which JavaScript can represent.
"""

import hashlib
from typing import Final

from django.utils.crypto import salted_hmac

ROUNDS: Final = 4
HALF_BITS: Final = 26
MASK: Final = 2**HALF_BITS - 1
BEGINNING: Final = 0
MAX_SHOWN: Final = 2 ** (2 * HALF_BITS)


def shown_place(place: int) -> int:
    """Return the number by which a client knows a place; never that of the beginning."""
    left, right, key = place >> HALF_BITS, place & MASK, _key()
    for number in range(ROUNDS):
        left, right = right, left ^ _mixed(right, number, key)
    return (left << HALF_BITS | right) + 1


def place_of(shown: int) -> int:
    """Return the place that a client's number means; for any other number, one that is hardly ever taken."""
    if shown == BEGINNING:
        return 0
    left, right, key = (shown - 1) >> HALF_BITS, (shown - 1) & MASK, _key()
    for number in reversed(range(ROUNDS)):
        left, right = right ^ _mixed(left, number, key), left
    return left << HALF_BITS | right


def _key() -> bytes:
    return salted_hmac("memoryhub.places", "", algorithm="sha256").digest()


def _mixed(half: int, number: int, key: bytes) -> int:
    digest = hashlib.blake2b(half.to_bytes(4) + bytes([number]), key=key, digest_size=4).digest()
    return int.from_bytes(digest) & MASK
