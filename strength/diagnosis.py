"""What `manage.py doctor` looks at in long-term memory: whether strategies keep up with what was said."""

from collections.abc import Iterator

from django.conf import settings
from django.db import DatabaseError

from memoryhub.api.diagnosis import Finding, Level
from strength.actions.extraction import unread_messages

SUBJECT = "extraction"
MANY = 1_000
"""Messages that wait for a strategy; fewer are a busy hour."""


def strategies() -> Iterator[Finding]:
    """Look how many messages wait for a strategy."""
    try:
        waiting = unread_messages()
    except DatabaseError as error:
        yield Finding(Level.WARNING, SUBJECT, f"The database does not answer ({type(error).__name__}).")
        return
    told = ", ".join(f"{number} for {strategy}" for strategy, number in sorted(waiting.items()))
    if waiting and settings.LLM.provider == "none":
        detail = f"messages wait for a language model: {told}; configure one, and they are read"
        yield Finding(Level.WARNING, SUBJECT, detail)
    elif max(waiting.values(), default=0) >= MANY:
        detail = f"many messages wait: {told}; see whether jobs of the kind `extract` end, and whether a cap is reached"
        yield Finding(Level.WARNING, SUBJECT, detail)
    else:
        yield Finding(Level.FINE, SUBJECT, f"messages wait: {told}" if told else "every message was read")
