"""Check of `manage.py doctor`: whether extraction keeps up with new messages."""

from collections.abc import Iterator

from django.conf import settings
from django.db import DatabaseError

from memoryhub.api.health import Finding, Level
from strength.actions.extraction import unread_messages

SUBJECT = "extraction"
MANY = 1_000
"""Unread messages of a strategy; fewer are a busy hour."""


def strategies() -> Iterator[Finding]:
    try:
        unread = unread_messages()
    except DatabaseError as error:
        yield Finding(Level.WARNING, SUBJECT, f"The database does not answer ({type(error).__name__}).")
        return
    counts = ", ".join(f"{number} for {strategy}" for strategy, number in sorted(unread.items()))
    if unread and settings.LLM.provider == "none":
        detail = f"messages wait for a language model: {counts}; configure one, and they are read"
        yield Finding(Level.WARNING, SUBJECT, detail)
    elif max(unread.values(), default=0) >= MANY:
        advice = "see whether jobs of the kind `extract` end, and whether a cap is reached"
        detail = f"many messages wait: {counts}; {advice}"
        yield Finding(Level.WARNING, SUBJECT, detail)
    else:
        yield Finding(Level.FINE, SUBJECT, f"messages wait: {counts}" if counts else "every message was read")
