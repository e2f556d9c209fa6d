"""Management commands, and the base of those that may be stopped and run again."""

from datetime import UTC, datetime
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from django.utils.dateparse import parse_date, parse_datetime
from rich.console import Console
from rich.progress import Progress

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
        raise CommandError(
            f"{name} must be a day as 2026-03-01, or a time as 2026-03-01T09:00+09:00, not {text!r}."
        )
    moment = moment or datetime.combine(day, datetime.min.time())  # type: ignore[arg-type]
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class ResumableCommand(BaseCommand):
    """Answers Ctrl-C with what to do next instead of a traceback."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except KeyboardInterrupt:
            self.stderr.write("Stopped; run it again to go on.")
            raise SystemExit(STOPPED) from None

    def progress_bar(self) -> Progress:
        """Return a bar for a terminal; elsewhere nothing moves, and the closing line says it all."""
        return Progress(console=Console(stderr=True), disable=not self.stderr.isatty())
