"""`manage.py cluster_tables`: cluster the index tables by actor on disk."""

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError

from memoryhub.management import ResumableCommand
from memoryhub.search.maintenance import SCATTERED, TableBusy, cluster_tables, clustered_models, scatter


class Command(ResumableCommand):
    help = (
        "Lay each actor's index rows together on disk, so that searches read fewer pages. Locks one table after "
        "the other, about 6 s for a million rows: run it when it is quiet. Tables in good order are left alone."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--from", type=_scatter, default=SCATTERED, dest="from_scatter", metavar="SCATTER",
            help=f"Leave tables alone that are scattered less than this ({SCATTERED}; 1 is perfect order).",
        )  # fmt: skip
        parser.add_argument(
            "--dry-run", action="store_true", help="Say how scattered they are, and do nothing."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["dry_run"]:
            for model in clustered_models():
                found = scatter(model)
                helps = "would help" if found >= options["from_scatter"] else "would not help"
                self.stdout.write(f"{model._meta.db_table}: scattered {found:.1f}, clustering {helps}")
            return
        try:
            for each in cluster_tables(from_scatter=options["from_scatter"]):
                told = f"{each.after:.1f} after {each.seconds:.0f} s" if each.seconds else "left as it is"
                self.stdout.write(f"{each.table}: scattered {each.before:.1f}, {told}")
        except TableBusy as error:
            raise CommandError(f"{error} Try again when it is quieter; nothing was changed in it.") from error
        except DatabaseError as error:
            reason = str(error).strip().splitlines()[0]
            raise CommandError(
                f"PostgreSQL could not do it: {reason}. Nothing was changed in that table."
            ) from error


def _scatter(text: str) -> float:
    value = float(text)
    if not value >= 0:  # not a number is neither less nor more, and would lock every table
        raise ValueError(text)
    return value
