"""How the background is doing, in the reader's language: "idle" is not "down", and what to do about it."""

from dataclasses import dataclass
from typing import Any

from django.utils.formats import date_format
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from memoryhub.jobs.domain import State
from memoryhub.jobs.watching import Background, Mood

MOODS: dict[Mood, Any] = {
    Mood.IDLE: _("idle"),
    Mood.WORKING: _("at work"),
    Mood.BEHIND: _("behind"),
    Mood.DOWN: _("no worker is there"),
}


@dataclass(frozen=True)
class Told:
    """The background in words: how it is, and what to do where something is to be done."""

    mood: Mood
    sentence: str
    advice: str

    @property
    def is_well(self) -> bool:
        """Whether nobody need do anything about the workers."""
        return self.mood in (Mood.IDLE, Mood.WORKING)


def told(state: Background) -> Told:
    """Return what to say of the background."""
    return Told(state.mood, f"{_workers(state)} {_counts(state)}", _advice(state))


def _workers(state: Background) -> str:
    if state.mood is not Mood.DOWN:
        words = ngettext("%(count)d worker, %(mood)s:", "%(count)d workers, %(mood)s:", state.crews)
        return words % {"count": state.crews, "mood": MOODS[state.mood]}
    if state.last_seen_at is None:
        return gettext("No worker is there (none was ever seen); the background may be down:")
    seen = date_format(state.last_seen_at, "DATETIME_FORMAT")
    return gettext("No worker is there (the last was seen at %(time)s); the background may be down:") % {
        "time": seen
    }


def _counts(state: Background) -> str:
    counts = {each.value: state.jobs.get(each, 0) for each in State}
    return gettext("%(queued)d jobs wait, %(running)d run, %(failed)d failed, %(dead)d are dead.") % counts


def _advice(state: Background) -> str:
    if state.mood is Mood.DOWN:
        return gettext(
            "Start the workers with “manage.py serve” (all in one) or “manage.py work” (workers alone). "
            "Nothing is lost meanwhile: what waits is done once they are there."
        )
    if state.mood is Mood.BEHIND:
        minutes = int(state.waited.total_seconds() // 60)
        return ngettext(
            "The oldest job has waited for %(minutes)d minute. Add workers (MEMORYHUB_WORKERS), or look below for jobs "
            "that fail again and again.",
            "The oldest job has waited for %(minutes)d minutes. Add workers (MEMORYHUB_WORKERS), or look below for "
            "jobs that fail again and again.",
            minutes,
        ) % {"minutes": minutes}
    return ""
