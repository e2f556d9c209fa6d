"""What rows are called where a page names them: by names, words and times, and never in a log or in `__str__`."""

from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.text import capfirst
from django.utils.translation import gettext

from memoryhub.tenancy.models import Actor

LONGEST_USER = 60
LONGEST_TITLE = 80


def named(actor: Actor) -> str:
    """Return whose a row is as plain text; the user's id is isolated, so that its direction ends where it ends."""
    if not actor.user_id:
        return actor.agent_id
    return f"{actor.agent_id} / \u2068{shortened(actor.user_id, LONGEST_USER)}\u2069"


def dated(what: Any, at: datetime) -> str:
    """Return what a row without a name is, and when it came to be."""
    when = date_format(timezone.localtime(at), "SHORT_DATETIME_FORMAT")
    return capfirst(gettext("%(what)s, %(time)s") % {"what": what, "time": when})


def shortened(text: str, length: int = LONGEST_TITLE) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[:length].rstrip()}…"
