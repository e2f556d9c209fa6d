"""`manage.py serve`: run memoryhub in the foreground."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memoryhub.env import read_environment
from memoryhub.postgres import PostgresError
from memoryhub.supervisor import Supervisor, SupervisorError


class Command(BaseCommand):
    """Start database and web server, keep them alive, and end them at Ctrl-C or SIGTERM."""

    help = "Run memoryhub in the foreground: embedded database, migrations, web server. Ctrl-C ends it."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until told to stop."""
        try:
            Supervisor(read_environment(), say=self._say).run()
        except (SupervisorError, PostgresError) as problem:
            raise CommandError(str(problem)) from problem

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
