"""Commands that may be stopped at any moment, because the next run goes on from there."""

from typing import Any

from django.core.management.base import BaseCommand

STOPPED = 130
"""What a shell expects of a program that Ctrl-C has ended."""


class ResumableCommand(BaseCommand):
    """Answers Ctrl-C with what to do next instead of a traceback."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the command; SystemExit where it was stopped."""
        try:
            return super().execute(*args, **options)
        except KeyboardInterrupt:
            self.stderr.write("Stopped; run it again to go on.")
            raise SystemExit(STOPPED) from None
