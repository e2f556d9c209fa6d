"""Management commands, and the base of those that may be stopped and run again."""

import time
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.dateparse import parse_date, parse_datetime
from rich.console import Console
from rich.progress import Progress, TaskID

from memoryhub.importexport.native.exporter import Selection
from memoryhub.tenancy.models import Agent
from memoryhub.validators import text_problem

MAX_NAMED: Final = 20
"""Agents that a message names."""

MAX_REASON_LENGTH: Final = 1000

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


def at_least_one(text: str) -> int:
    """Return the number of an option, as argparse's `type`. Raises ValueError below 1."""
    if (number := int(text)) < 1:
        raise ArgumentTypeError(f"must be 1 or more, not {text}")
    return number


def add_selection_options(parser: CommandParser) -> None:
    """Add --agent and --user, which mean the same in every command that takes several actors."""
    parser.add_argument("--agent", help="One agent, with all its users.")
    parser.add_argument("--user", help="One user of the agent, all without it; an empty one is the agent itself.")


def selection_of(options: Mapping[str, Any]) -> Selection:
    """Return the agents and users that --agent and --user name. Raises CommandError."""
    agent, user = options["agent"], options["user"]
    if user is not None and not agent:
        raise CommandError("--user needs --agent: a user's memory is an agent's memory of that user.")
    selection = Selection(agent, user)
    if agent is not None and not selection.agents().exists():
        raise unknown_agent(agent)
    if user is not None and not selection.actors().exists():
        raise unknown_user(agent, user)
    return selection


def check_texts(**texts: str) -> None:
    """Raise CommandError for a text that cannot be stored, or would spoil what a terminal shows."""
    for option, text in texts.items():
        if problem := text_problem(text):
            raise CommandError(f"{option}: {problem}")
        if text and not (text.strip() and text.isprintable()):
            raise CommandError(f"{option}: give printable characters, on one line.")


def check_reason(reason: str) -> None:
    """Raise CommandError for a reason that the audit trail cannot keep."""
    if len(reason) > MAX_REASON_LENGTH:
        raise CommandError(f"reason: give at most {MAX_REASON_LENGTH} characters.")
    check_texts(reason=reason)


def unknown_agent(*agent_ids: str) -> CommandError:
    """Return the error of a command that names agents that do not exist, with the first that do."""
    names = list(Agent.objects.order_by("pk").values_list("pk", flat=True)[: MAX_NAMED + 1])
    more = ", …" if len(names) > MAX_NAMED else ""
    existing = f"There are: {', '.join(names[:MAX_NAMED])}{more}." if names else "There is none yet."
    return CommandError(f"There is no agent {', '.join(map(repr, agent_ids))}. {existing}")


def unknown_user(agent_id: str, user_id: str) -> CommandError:
    """Return the error of a command that names a user whom an agent does not know; "" is the agent itself."""
    if not user_id:
        return CommandError(f"The agent {agent_id!r} has no memory of its own; name a user with --user.")
    return CommandError(f"The agent {agent_id!r} has no memory of a user {user_id!r}.")


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
        remaining = f", {timedelta(seconds=int(task.time_remaining))} left" if task.time_remaining else ""
        self._write_line(f"{task.description}: {share} after {timedelta(seconds=int(task.elapsed or 0))}{remaining}")
