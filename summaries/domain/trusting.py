"""A summary is never more trusted than the least trusted of what it was made of (SPEC M10)."""

from collections.abc import Iterable

from memoryhub.tenancy.domain import Trust


def lowest(*trusts: Trust | str, among: Iterable[Trust | str] = ()) -> Trust:
    """Return the lowest of these trusts; of none at all, trusted."""
    return Trust.UNTRUSTED if Trust.UNTRUSTED in {*trusts, *among} else Trust.TRUSTED
