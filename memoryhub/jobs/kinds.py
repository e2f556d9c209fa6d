"""The kinds of jobs, as `settings.JOB_KINDS` lists them: what runs, under which lease, for how long at most."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils.module_loading import import_string

if TYPE_CHECKING:
    from memoryhub.jobs.running import RunningJob

Writes = Callable[[], object]
Run = Callable[["RunningJob"], Writes | None]


class UnknownKind(LookupError):
    """No line of `JOB_KINDS` has this name."""


@dataclass(frozen=True)
class Kind:
    """One line of `JOB_KINDS`.

    `run` works outside any transaction and returns what is to be written, or None. `lease_seconds` is how soon a
    lost worker is noticed, `deadline_seconds` how long one attempt may take, `at_once` how many may run at a time.
    """

    name: str
    run: str
    lease_seconds: int = 60
    deadline_seconds: int = 300
    at_once: int | None = None

    def problem(self) -> str | None:
        """Say what is wrong with the line; None where nothing is."""
        if self.lease_seconds < 2 or self.deadline_seconds < 1:
            return "lease_seconds must be 2 or more, deadline_seconds 1 or more"
        if self.at_once is not None and self.at_once < 1:
            return "at_once must be 1 or more, or left out"
        try:
            return None if callable(import_string(self.run)) else f"{self.run} cannot be called"
        except ImportError as error:
            return str(error)

    def function(self) -> Run:
        """Return the function that does the work."""
        function: Run = import_string(self.run)
        return function


@cache
def kinds() -> dict[str, Kind]:
    """Return all kinds by name."""
    return {name: Kind(name=name, **line) for name, line in settings.JOB_KINDS.items()}


def kind(name: str) -> Kind:
    """Return a kind; raises UnknownKind."""
    try:
        return kinds()[name]
    except KeyError:
        raise UnknownKind(f"JOB_KINDS has no {name!r}; one of {', '.join(sorted(kinds()))}.") from None


def bounds() -> tuple[list[str], list[int]]:
    """Return the kinds of which only so many may run at once, and how many."""
    bounded = [(each.name, each.at_once) for each in kinds().values() if each.at_once is not None]
    return [name for name, _ in bounded], [most for _, most in bounded]
