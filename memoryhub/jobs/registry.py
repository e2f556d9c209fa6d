"""The kinds of jobs, as `settings.JOB_KINDS` lists them: what runs, under which lease, for how long at most."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.utils.module_loading import import_string

if TYPE_CHECKING:
    from memoryhub.jobs.context import JobContext

Writes = Callable[[], object]
Run = Callable[["JobContext"], Writes | None]


LONGEST_NAME: Final = 64


class UnknownKind(LookupError):
    """No line of `JOB_KINDS` has this name."""


@dataclass(frozen=True)
class JobKind:
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
        if len(self.name) > LONGEST_NAME:
            return f"its name is longer than {LONGEST_NAME} characters"
        if not _is_whole(self.lease_seconds, 2) or not _is_whole(self.deadline_seconds, 1):
            return "lease_seconds must be a whole number from 2 on, deadline_seconds from 1 on"
        if self.at_once is not None and not _is_whole(self.at_once, 1):
            return "at_once must be 1 or more, or left out"
        try:
            return None if callable(import_string(self.run)) else f"{self.run} cannot be called"
        except ImportError as error:
            return str(error)

    def function(self) -> Run:
        """Return the function that does the work."""
        function: Run = import_string(self.run)
        return function


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


@cache
def job_kinds() -> dict[str, JobKind]:
    """Return all kinds by name."""
    return {name: JobKind(name=name, **line) for name, line in settings.JOB_KINDS.items()}


def job_kind(name: str) -> JobKind:
    """Return a kind; raises UnknownKind."""
    try:
        return job_kinds()[name]
    except KeyError:
        raise UnknownKind(f"JOB_KINDS has no {name!r}; one of {', '.join(sorted(job_kinds()))}.") from None


def bounds() -> tuple[list[str], list[int]]:
    """Return the kinds of which only so many may run at once, and how many."""
    bounded = [(each.name, each.at_once) for each in job_kinds().values() if each.at_once is not None]
    return [name for name, _ in bounded], [most for _, most in bounded]
