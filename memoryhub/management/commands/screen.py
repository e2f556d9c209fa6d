"""`manage.py screen`: take secrets out of what was stored before they were screened, or with another policy."""

from collections import Counter
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from memoryhub.auth.principals import command
from memoryhub.importexport.native.stored_texts import count_texts, screen_actor
from memoryhub.management import ResumableCommand, add_selection_options, at_least_one, selection_of


class Command(ResumableCommand):
    help = (
        "Replace the secrets in stored texts by `[secret removed: kind]`, by the policy `secrets` of each agent, and "
        "index changed texts again. A stopped run can be repeated: what is done is not changed again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_selection_options(parser)
        parser.add_argument("--batch-size", type=at_least_one, default=500, help="Rows a step (500).")
        parser.add_argument("--dry-run", action="store_true", help="Count what would be removed; change nothing.")

    def handle(self, *args: Any, **options: Any) -> None:
        actors = selection_of(options).actors().select_related("agent")
        by, removed = command("screen"), Counter[str]()
        with self.progress_bar() as bar:
            task = bar.add_task("Screening", total=sum(map(count_texts, actors)))
            for actor in actors:
                removed += screen_actor(
                    actor,
                    by=by,
                    now=timezone.now(),
                    batch_size=options["batch_size"],
                    dry_run=options["dry_run"],
                    progress=lambda count: bar.advance(task, count),
                )
        verb = "would be removed" if options["dry_run"] else "removed"
        kinds = ", ".join(f"{count} {kind}" for kind, count in removed.most_common())
        self.stdout.write(f"{removed.total()} secrets {verb}{f': {kinds}' if kinds else ''}.")
