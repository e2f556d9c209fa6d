"""`manage.py reindex`: bring words up to date after a release that analyses texts otherwise."""

from typing import Any

from django.core.management.base import CommandParser

from memoryhub.management import ResumableCommand, at_least_one
from memoryhub.search.maintenance import count_outdated, reindex


class Command(ResumableCommand):
    help = (
        "Rebuild the word index of texts that an older release indexed. Searches continue; a stopped run continues "
        "where it stopped. `manage.py doctor` reports when it is needed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--batch-size", type=at_least_one, default=500, help="Texts a step (500).")
        parser.add_argument("--dry-run", action="store_true", help="Show what would be done; change nothing.")

    def handle(self, *args: Any, **options: Any) -> None:
        waiting = count_outdated()
        if options["dry_run"]:
            self.stdout.write(f"{waiting} texts wait to be analysed anew.")
            return
        with self.progress_bar() as bar:
            task = bar.add_task("Analysing", total=waiting)
            done = reindex(batch_size=options["batch_size"], progress=lambda n: bar.advance(task, n))
        self.stdout.write(f"Analysed {done} texts anew.")
