"""`manage.py stop`: end what `manage.py serve` started."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memoryhub.env import read_environment
from memoryhub.runtime import supervisor


class Command(BaseCommand):
    help = "Stop the memoryhub that runs on MEMORYHUB_DATA_DIR, and its embedded database."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            supervisor.stop(read_environment(), say=self.stdout.write)
        except supervisor.SupervisorError as problem:
            raise CommandError(str(problem)) from problem
