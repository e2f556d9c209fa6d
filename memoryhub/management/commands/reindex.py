"""`manage.py reindex`: bring words up to date after a release that analyses texts otherwise."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from memoryhub.management import ResumableCommand
from memoryhub.search.maintenance import count_outdated, reindex


class Command(ResumableCommand):
    help = (
        "Analyse anew the texts whose words an older release has written. Searches go on meanwhile; a run "
        "that was stopped goes on where it stopped. `manage.py doctor` says when there is need."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--batch-size", type=int, default=500, help="Texts per step (500).")
        parser.add_argument("--dry-run", action="store_true", help="Say what would be done, and do nothing.")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["batch_size"] < 1:
            raise CommandError("--batch-size must be 1 or more.")
        waiting = count_outdated()
        if options["dry_run"]:
            self.stdout.write(f"{waiting} texts wait to be analysed anew.")
            return
        with self.progress_bar() as bar:
            task = bar.add_task("Analysing", total=waiting)
            done = reindex(batch_size=options["batch_size"], progress=lambda n: bar.advance(task, n))
        self.stdout.write(f"Analysed {done} texts anew.")
