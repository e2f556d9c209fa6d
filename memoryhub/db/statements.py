"""What a statement does, by its text: whether a standby can execute it, and whether reads have to wait for its changes.

A statement of which this is not sure counts as one that writes.
"""

import re
from functools import lru_cache
from typing import Any, Final

_READS: Final = re.compile(r"\s*(?:SELECT|WITH|\(\s*SELECT|VALUES)\b", re.I)
_LOCKS: Final = re.compile(r"\bFOR\s+(?:NO\s+KEY\s+UPDATE|KEY\s+SHARE|UPDATE|SHARE)\b", re.I)
_CHANGES: Final = re.compile(
    r"\b(?:INSERT|UPDATE|DELETE|MERGE|COPY|TRUNCATE|CREATE|ALTER|DROP|INTO|nextval|setval)\b", re.I
)
_OF_THE_SESSION: Final = re.compile(
    r"\b(?:SET|LISTEN|pg_(?:try_)?advisory\w*|set_config|pg_notify|txid_current|pg_current_wal\w*)\b", re.I
)
_UNLOGGED: Final = re.compile(r'"?\bmemoryhub_(?:sharedvalue|callsum|position)\b', re.I)
"""Tables that a standby does not have."""

_OF_ONE_HOST: Final = re.compile(
    r"\s*(?:WITH\s+\w+\s+AS\s*\(\s*)?(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+"
    r'"?memoryhub_(?:sharedvalue|callsum|position|worker)\b',
    re.I,
)
"""Changes that no read on a replica needs: of tables that are not there, and signs of life."""


def only_reads(statement: Any) -> bool:
    """Return whether a standby can execute the statement, and without an effect on the session."""
    return isinstance(statement, str) and _only_reads(statement)


def changes_rows(statement: Any) -> bool:
    """Return whether reads must see what the statement changes; locking rows changes none."""
    return not isinstance(statement, str) or _changes_rows(statement)


@lru_cache(1024)
def _only_reads(statement: str) -> bool:
    kept_from_standbys = (_LOCKS, _CHANGES, _OF_THE_SESSION, _UNLOGGED)
    return bool(_READS.match(statement)) and not any(each.search(statement) for each in kept_from_standbys)


@lru_cache(1024)
def _changes_rows(statement: str) -> bool:
    return bool(_CHANGES.search(_LOCKS.sub("", statement))) and not _OF_ONE_HOST.match(statement)
