"""`manage.py backfill`: catch up with summaries, extraction and embeddings of what was said before."""

from collections import Counter
from itertools import islice
from typing import Any, Final

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from memoryhub.jobs.backfill import SOURCES, BackfillResult, Piece, Scope, run_piece
from memoryhub.llm.errors import ProviderError
from memoryhub.management import ResumableCommand, add_selection_options, at_least_one, moment_option, selection_of

STUCK_AFTER: Final = 20
"""After so many in a row that had to wait, the others would have to wait as well."""

WITHOUT_MODEL: Final = (
    "No language model is configured here: summaries are made of the conversation's sentences, and nothing is "
    "extracted. If the server has one, stop this, set MEMORYHUB_LLM_PROVIDER and its key as the server has them, and "
    "run it again."
)


class Command(ResumableCommand):
    help = (
        "Write missing summaries, extract memories from unread messages, and embed texts without vectors. Without a "
        "choice, all three. "
        "A stopped run continues where it stopped; spend caps hold."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        for name in sources():
            parser.add_argument(f"--{name}", action="store_true", help=f"Catch up with {name}.")
        add_selection_options(parser)
        parser.add_argument(
            "--since", help="Since when, as 2026-03-01; what waits for extraction is read whatever its age."
        )
        parser.add_argument("--limit", type=at_least_one, help="At most so many jobs of each kind.")
        parser.add_argument("--dry-run", action="store_true", help="Show what would be done; change nothing.")

    def handle(self, *args: Any, **options: Any) -> None:
        selection = selection_of(options)
        scope = Scope(selection.agent_id, selection.user_id, moment_option("--since", options["since"]))
        chosen = [name for name in sources() if options[name]] or sources()
        if settings.LLM.provider == "none" and chosen != ["embeddings"]:
            self.stderr.write(WITHOUT_MODEL)
        for name in chosen:
            try:
                missing = list(islice(SOURCES[name](scope), options["limit"]))
            except ProviderError as error:
                self.stdout.write(f"{name}: {error}")
                continue
            texts = f"{sum(piece.size for piece in missing)} texts" if missing else "nothing is missing"
            self.stdout.write(f"{name}: {len(missing)} to do, {texts}.")
            if missing and not options["dry_run"]:
                self._work_off(name, missing)

    def _work_off(self, name: str, missing: list[Piece]) -> None:
        """Process all pieces; those that wait or fail do not stop the others, unless none progresses."""
        results: Counter[BackfillResult] = Counter()
        reasons: dict[str, None] = {}
        waiting_in_a_row = 0
        with self.progress_bar() as bar:
            task = bar.add_task(name.capitalize(), total=len(missing))
            for piece in missing:
                outcome = run_piece(piece)
                results[outcome.result] += 1
                waiting_in_a_row = waiting_in_a_row + 1 if outcome.result is BackfillResult.WAITS else 0
                if outcome.reason:
                    reasons[outcome.reason] = None
                bar.advance(task)
                if waiting_in_a_row == STUCK_AFTER:
                    break
        self.stdout.write(f"{name}: " + ", ".join(f"{number} {result}" for result, number in results.items()) + ".")
        if reasons:
            raise CommandError(
                f"{name}: {' '.join(list(reasons)[:3])} What was done is kept. What has begun goes on by itself where "
                "a worker runs; or run the command again later."
            )


def sources() -> list[str]:
    """Return what can be backfilled; vectors last, for what the others write wants some, too."""
    return sorted(SOURCES, key="embeddings".__eq__)
