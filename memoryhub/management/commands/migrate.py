"""`manage.py migrate`: Django's, by one host at a time, and never over a schema that this release cannot migrate."""

import time
from typing import Any, Final

from django.core.management.base import CommandError, CommandParser
from django.core.management.commands.migrate import Command as Migrate

from memoryhub.db.schema import schema_problem, schema_turn, waiting_migrations

POLL_SECONDS: Final = 2.0


class Command(Migrate):
    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--wait", action="store_true", help="Apply nothing; wait until another host has.")

    def handle(self, *args: Any, **options: Any) -> None:
        if problem := schema_problem():
            raise CommandError(f"{problem[0].upper()}{problem[1:]}.")
        if options["wait"]:
            self._wait()
        elif options["check_unapplied"] or options["plan"]:
            super().handle(*args, **options)
        else:
            with schema_turn(self.stdout.write):
                super().handle(*args, **options)

    def _wait(self) -> None:
        if waiting_migrations():
            self.stdout.write("The database waits for its migrations, by `manage.py migrate` or the host of the web.")
            self.stdout.flush()
        while waiting_migrations():
            time.sleep(POLL_SECONDS)
