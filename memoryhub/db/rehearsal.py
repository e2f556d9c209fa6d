"""Rehearsals: changes by their real actions in a transaction that is rolled back, to see what would follow."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from django.db import transaction

_REHEARSES: ContextVar[bool] = ContextVar("rehearses", default=False)


@contextmanager
def rehearsal() -> Iterator[None]:
    """Roll back what the block writes: rows, jobs, audit entries, and callbacks after the commit."""
    with transaction.atomic():
        token = _REHEARSES.set(True)
        try:
            yield
        finally:
            _REHEARSES.reset(token)
        transaction.set_rollback(True)


def is_rehearsal() -> bool:
    """Return whether the current changes are rolled back, so that costly ones that nothing reads may be left out."""
    return _REHEARSES.get()
