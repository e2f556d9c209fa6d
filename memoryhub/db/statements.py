"""Classify statements by their text: those that a standby can execute, and those with changes that reads must see.

A statement in doubt counts as one that writes.
"""

import re
from functools import lru_cache
from typing import Any, Final

# With one blank between words, as `_normal` writes them.
_READS: Final = re.compile(r"(?:SELECT|WITH|VALUES|\(SELECT|\( SELECT)\b", re.I)
_LOCKS: Final = re.compile(r"\bFOR (?:NO KEY UPDATE|KEY SHARE|UPDATE|SHARE)\b", re.I)
_CHANGES: Final = re.compile(
    r"\b(?:INSERT|UPDATE|DELETE|MERGE|COPY|TRUNCATE|CREATE|ALTER|DROP|INTO|nextval|setval)\b", re.I
)
_OF_THE_SESSION: Final = re.compile(
    r"\b(?:SET|LISTEN|pg_advisory|pg_try_advisory|set_config|pg_notify|txid_current|pg_current)(?:_\w+)?\b", re.I
)
_UNLOGGED: Final = re.compile(r"\bmemoryhub_(?:sharedvalue|callsum|position)\b", re.I)
"""Tables that a standby does not have."""

_OF_ONE_HOST: Final = re.compile(
    r'(?:WITH own AS \( ?)?(?:INSERT INTO|UPDATE|DELETE FROM) "?memoryhub_(?:sharedvalue|callsum|position|worker)\b',
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
    text, kept_from_standbys = _normal(statement), (_LOCKS, _CHANGES, _OF_THE_SESSION, _UNLOGGED)
    return bool(_READS.match(text)) and not any(each.search(text) for each in kept_from_standbys)


@lru_cache(1024)
def _changes_rows(statement: str) -> bool:
    text = _normal(statement)
    return bool(_CHANGES.search(_LOCKS.sub("", text))) and not _OF_ONE_HOST.match(text)


def _normal(statement: str) -> str:
    return " ".join(statement.split())
