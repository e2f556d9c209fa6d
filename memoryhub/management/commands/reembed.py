"""`manage.py reembed`: change the embedding model while searches go on."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from memoryhub.embeddings.spaces import (
    calibrate,
    fill,
    plan_change,
    remove_retired,
    retire_unfinished_spaces,
    switch,
    target_space,
)
from memoryhub.llm.errors import ProviderError
from memoryhub.management import ResumableCommand, at_least_one


class Command(ResumableCommand):
    help = (
        "Embed all texts with the configured provider, measure its cosines, then switch searches to it. "
        "Searches continue; a stopped run continues where it stopped."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--batch-size", type=at_least_one, default=200, help="Texts a step (200).")
        parser.add_argument("--dry-run", action="store_true", help="Show what would be done; change nothing.")
        parser.add_argument("--keep-old", action="store_true", help="Keep the former space's vectors.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._change(options["batch_size"], dry_run=options["dry_run"], keep_old=options["keep_old"])
        except ProviderError as error:
            raise CommandError(f"{error} What was embedded is kept; run the command again to go on.") from error

    def _change(self, batch_size: int, *, dry_run: bool, keep_old: bool) -> None:
        plan = plan_change()
        self.stdout.write(f"Searches read {plan.source}; configured is {plan.target}; {plan.waiting} texts to embed.")
        if dry_run:
            return
        retire_unfinished_spaces()
        source, target = plan.source, target_space()
        with self.progress_bar() as bar:
            task = bar.add_task("Embedding", total=plan.waiting)
            done = fill(target, source=source, batch_size=batch_size, progress=lambda n: bar.advance(task, n))
            calibrate(target)
            if source.pk != target.pk:
                switch(target)
                done += fill(target, source=source, batch_size=batch_size, progress=lambda n: bar.advance(task, n))
        removed = 0 if keep_old else remove_retired(batch_size=batch_size)
        self.stdout.write(f"Embedded {done} texts; searches read {target}; removed {removed} former rows.")
