"""`manage.py cluster_tables`: cluster the index tables by actor on disk."""

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from memoryhub.management import ResumableCommand
from memoryhub.search.clustering import Clustering, TableBusy, page_fragmentation
from memoryhub.search.models import index_models


class Command(ResumableCommand):
    help = (
        "Lay each actor's index rows together on disk, so that searches read fewer pages, as the job of this name "
        "does each night. Searches and writes continue; a stopped run continues where it stopped."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--again", action="store_true", help="Begin with the oldest texts, after an import of many users."
        )
        parser.add_argument("--dry-run", action="store_true", help="Show how many pages searches read; change nothing.")

    def handle(self, *args: Any, **options: Any) -> None:
        for model in index_models():
            table = model._meta.db_table
            if options["dry_run"]:
                self.stdout.write(f"{table}: searches touch {page_fragmentation(model):.1f} times its pages")
                continue
            clustering = Clustering(model)
            if options["again"]:
                clustering.reset()
            try:
                with self.progress_bar() as bar:
                    task = bar.add_task(table, total=None)
                    for count in clustering.run(now=timezone.now()):
                        bar.advance(task, count)
            except TableBusy as error:
                raise CommandError(f"{error} Run it again when it is quieter; it goes on from there.") from error
            moved = f"{clustering.moved:,} rows laid together" if clustering.moved else "left as it is"
            self.stdout.write(f"{table}: {moved}")
