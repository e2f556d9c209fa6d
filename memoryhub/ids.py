"""Primary keys: time-ordered UUIDs (version 7), so that rows written together lie together."""

from uuid import UUID

from uuid_utils.compat import uuid7


def new_id() -> UUID:
    """Return a fresh UUIDv7; ids made later sort later, to the millisecond."""
    return uuid7()
