"""`manage.py serve`: run memoryhub in the foreground."""

import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from memoryhub.env import CHECKOUT, read_environment
from memoryhub.runtime.supervisor import PROGRAMS


class Command(BaseCommand):
    help = "Run memoryhub in the foreground: embedded database, migrations, web server, workers. Ctrl-C ends it."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--only",
            action="append",
            default=[],
            choices=[program.name for program in PROGRAMS],
            help="Run this program alone (with DATABASE_URL); may be given more than once.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        environment = {**os.environ, "MEMORYHUB_DATA_DIR": str(read_environment().data_dir)}
        command = [sys.executable, "-m", "memoryhub.runtime.supervisor", *options["only"]]
        os.chdir(CHECKOUT)
        os.execve(sys.executable, command, environment)
