"""Management commands, and the base of those that may be stopped and run again."""

from typing import Any, Final

from django.core.management.base import BaseCommand
from rich.console import Console
from rich.progress import Progress

STOPPED: Final = 130
"""Exit code of a program that Ctrl-C has ended."""


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
