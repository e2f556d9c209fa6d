"""`manage.py serve`: run memoryhub in the foreground."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from memoryhub.env import read_environment
from memoryhub.runtime.postgres import PostgresError
from memoryhub.runtime.supervisor import PROGRAMS, Supervisor, SupervisorError, programs_named


class Command(BaseCommand):
    """Start database, web server and workers, keep them alive, and end them at Ctrl-C or SIGTERM."""

    help = (
        "Run memoryhub in the foreground: embedded database, migrations, web server, workers. Ctrl-C ends it."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the programs to run, where not all of them run on this machine."""
        parser.add_argument(
            "--only",
            action="append",
            default=[],
            choices=[program.name for program in PROGRAMS],
            help="Run this program alone (with DATABASE_URL); may be given more than once.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until told to stop."""
        try:
            programs = programs_named(options["only"])
            Supervisor(read_environment(), say=self._say, programs=programs).run()
        except (SupervisorError, PostgresError) as problem:
            raise CommandError(str(problem)) from problem

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
