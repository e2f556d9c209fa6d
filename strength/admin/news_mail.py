"""The news as a mail: numbers and links; texts only on request, for a mail leaves the house (SPEC W14)."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.contrib.auth.models import User
from django.db.models.functions import Left
from django.utils.translation import gettext, ngettext

from memoryhub.admin.base import EXCERPT_SOURCE_LENGTH, format_count, short_time, truncated
from memoryhub.admin.waiting import waiting_for
from strength.actions.news import Window, count_forgotten, count_news, last_committed_change, news_lines, place_of
from strength.admin.news import KIND_LABELS, PERMISSIONS, NewsParams, news_window
from strength.models import Memory

MAX_LINES: Final = 50
MAX_TEXT_LENGTH: Final = 300


@dataclass(frozen=True)
class NewsMail:
    subject: str
    body: str


def may_read_news(person: User) -> bool:
    return person.is_active and person.is_staff and person.has_perms(PERMISSIONS)


def news_mail(person: User, *, url: str, with_texts: bool, now: datetime) -> NewsMail | None:
    """Return a person's news in the active language, with links below `url`; None where there is nothing to do."""
    place = place_of(person)
    window, since_at = news_window(NewsParams(), person, place, last_committed_change(), now)
    totals, _by_actor = count_news(window)
    forgotten = sum(count for _agent, _user, count in count_forgotten(window))
    waiting = waiting_for(person, now)
    if not (totals or forgotten or waiting):
        return None
    lines = [gettext("Since %(time)s:") % {"time": short_time(since_at or place.read_at or now)}]
    for kind, label in KIND_LABELS.items():
        if kind in totals:
            lines.append(_figure(label, totals[kind], url + NewsParams(kind=kind).address()))
    if forgotten:
        lines.append(_figure(gettext("Forgotten"), forgotten, url + NewsParams().address()))
    if not (totals or forgotten):
        lines.append(gettext("Nothing has changed."))
    if waiting:
        lines += ["", gettext("Pending:"), *(_figure(tile.title, tile.figure, url + tile.href) for tile in waiting)]
    if with_texts:
        lines += ["", *_texts(window)]
    count = sum(totals.values()) + forgotten
    subject = ngettext("memoryhub: %(count)s change", "memoryhub: %(count)s changes", count)
    return NewsMail(subject % {"count": format_count(count)}, "\n".join(lines) + "\n")


def _figure(label: Any, figure: Any, address: str) -> str:
    shown = format_count(figure) if isinstance(figure, int) else figure
    return gettext("%(label)s: %(figure)s  %(address)s") % {"label": label, "figure": shown, "address": address}


def _texts(window: Window) -> Iterator[str]:
    lines = news_lines(window, after=None, limit=MAX_LINES)
    memories: Any = Memory.objects.of({line.actor_id for line in lines}).defer("content")
    texts = memories.annotate(opening=Left("content", EXCERPT_SOURCE_LENGTH)).in_bulk(
        [line.memory_id for line in lines]
    )
    labels = {str(kind): label for kind, label in KIND_LABELS.items()}
    for line in lines:
        if line.memory_id in texts:
            owner = f"{line.agent_id} / {line.user_id}" if line.user_id else line.agent_id
            yield f"{owner} · {labels[line.kind]}: {truncated(texts[line.memory_id].opening, MAX_TEXT_LENGTH)}"
