"""Management commands, and the base of those that may be stopped and run again."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from django.utils.dateparse import parse_date, parse_datetime
from rich.console import Console
from rich.progress import Progress, TaskID

from memoryhub.auth.tenancy import UnknownRow
from memoryhub.importexport.exporter import Selection
from memoryhub.tenancy.models import Agent

MAX_NAMED: Final = 20
"""Agents that a message names."""

STOPPED: Final = 130
"""Exit code of a program that Ctrl-C has ended."""


def moment_option(name: str, text: str | None) -> datetime | None:
    """Return the moment of an option that takes a day or a time, in UTC unless it says so. Raises CommandError."""
    if text is None:
        return None
    try:
        moment = parse_datetime(text)
        day = None if moment else parse_date(text)
    except ValueError:
        moment = day = None
    if moment is None and day is None:
        raise CommandError(f"{name} must be a day as 2026-03-01, or a time as 2026-03-01T09:00+09:00, not {text!r}.")
    moment = moment or datetime.combine(day, datetime.min.time())  # type: ignore[arg-type]
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:
        raise CommandError(f"{name} {text} is beyond the calendar, which ends with the year 9999 in UTC.") from None


def selection_of(options: Mapping[str, Any]) -> Selection:
    """Return the agents and users that --agent and --user name. Raises CommandError."""
    if options["user"] is not None and not options["agent"]:
        raise CommandError("--user needs --agent: a user's memory is an agent's memory of that user.")
    selection = Selection(options["agent"], options["user"])
    try:
        selection.check()
    except UnknownRow as error:
        hint = "" if selection.agents().exists() else f" {existing_agents()}"
        raise CommandError(f"{error}{hint}") from error
    return selection


def existing_agents() -> str:
    """Return the names of the first agents, for who has named one that does not exist."""
    names = list(Agent.objects.order_by("pk").values_list("pk", flat=True)[: MAX_NAMED + 1])
    more = ", …" if len(names) > MAX_NAMED else ""
    return f"There are: {', '.join(names[:MAX_NAMED])}{more}." if names else "There is none yet."


class ResumableCommand(BaseCommand):
    """Answers Ctrl-C with what to do next instead of a traceback."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except KeyboardInterrupt:
            self.stderr.write("Stopped; run it again to go on.")
            raise SystemExit(STOPPED) from None

    def progress_bar(self) -> Progress:
        """Return a bar with the time left for a terminal; elsewhere a line every ten seconds."""
        if self.stderr.isatty():
            return Progress(console=Console(stderr=True))
        return ProgressLines(self.stderr.write)


class ProgressLines(Progress):
    """Progress for a file or a log: now and then a line, with what is done and how long the rest will take."""

    seconds_between = 10.0

    def __init__(self, write: Callable[[str], object]) -> None:
        super().__init__(disable=True)
        self._write_line, self._reported_at = write, time.monotonic()

    def update(self, task_id: TaskID, **values: Any) -> None:
        super().update(task_id, **values)
        self._report(task_id)

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        super().advance(task_id, advance)
        self._report(task_id)

    def _report(self, task_id: TaskID) -> None:
        if time.monotonic() - self._reported_at < self.seconds_between:
            return
        self._reported_at = time.monotonic()
        task = self._tasks[task_id]
        share = f"{task.percentage:.0f} %" if task.total else f"{task.completed:,.0f}"
        left = f", {timedelta(seconds=int(task.time_remaining))} left" if task.time_remaining else ""
        self._write_line(f"{task.description}: {share} after {timedelta(seconds=int(task.elapsed or 0))}{left}")
