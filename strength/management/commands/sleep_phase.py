"""`manage.py sleep_phase`: run the sleep of actors now, or preview it."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from memoryhub.auth.access import UnknownRow
from memoryhub.auth.principals import command
from memoryhub.db.pool import run_parallel
from memoryhub.management import ResumableCommand, add_selection_options, at_least_one, moment_option, selection_of
from memoryhub.tenancy.models import Actor
from strength.actions.sleep import SleepRequest, actor_batches, sleep_batch
from strength.actions.sleep_runs import changes_of, preview_sleep
from strength.domain.sleep import ChangeKind, Trigger
from strength.models import Memory, SleepRun

SHOWN_CHANGES = 20
MOST_AT_ONCE = 4  # more would only wait for the disk
COUNTS = {
    "decayed_count": "decayed",
    "archived_count": "archived",
    "held_count": "held back",
    "consolidated_count": "consolidated",
    "merged_count": "merged",
    "proposed_count": "proposed merges",
}


class Command(ResumableCommand):
    help = (
        "Decay strengths, archive weak memories, update levels, and propose merges of near-duplicates. Without "
        "--agent: of all agents and users. With --agent alone: of the agent and all its users. A run that was stopped "
        "goes on when it is started again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_selection_options(parser)
        parser.add_argument("--dry-run", action="store_true", help="Show what would be done; change nothing.")
        parser.add_argument(
            "--at",
            metavar="DATE",
            help="With --dry-run: what would happen then, as 2026-03-01, if nothing was used or written until then.",
        )
        parser.add_argument("--json", action="store_true", help="One JSON object for each sleep, one on a line.")
        parser.add_argument(
            "--at-once",
            type=at_least_one,
            default=min(os.cpu_count() or 1, MOST_AT_ONCE),
            metavar="N",
            help="Actors at a time, each on a connection to the database (%(default)s).",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        selection = selection_of(options)
        now, at = timezone.now(), moment_option("--at", options["at"])
        if at is not None and not options["dry_run"]:
            raise CommandError("--at needs --dry-run: memory sleeps now, not at another time.")
        if at is not None and at < now:
            raise CommandError("--at is a day to come.")
        actors = list(selection.actors().select_related("agent").order_by("agent_id", "user_id"))
        sleep_request = SleepRequest(trigger=Trigger.COMMAND, by=command("sleep_phase"), now=now, at=at)
        sums: Counter[str] = Counter()
        with self.progress_bar() as bar:
            shown = bar.add_task("Sleeping", total=len(actors))
            for run in _sleeps(actors, sleep_request, dry_run=options["dry_run"], at_once=options["at_once"]):
                self._report(run, as_json=options["json"])
                sums.update({name: getattr(run, name) for name in COUNTS})
                bar.advance(shown)
        if not options["json"]:
            totals = ", ".join(f"{sums[name]} {text}" for name, text in COUNTS.items())
            self.stdout.write(f"{'Would be' if options['dry_run'] else 'Done'}: {len(actors)} actors, {totals}.")

    def _report(self, run: SleepRun, *, as_json: bool) -> None:
        if as_json:
            values = {name: getattr(run, name) for name in COUNTS if name != "proposed_count"}
            row = {
                "id": str(run.pk),
                "dry_run": run.dry_run,
                **values,
                "proposed_merges": run.proposed_count,
                "processed_at": run.processed_at.isoformat() if run.processed_at else None,
                "changes": changes_of(run),
                "errors": run.errors,
                "agent_id": run.actor.agent_id,
                "user_id": run.actor.user_id,
            }
            self.stdout.write(json.dumps(row, ensure_ascii=False))
            return
        counts = ", ".join(f"{getattr(run, name)} {text}" for name, text in COUNTS.items() if getattr(run, name))
        self.stdout.write(f"{_name(run.actor)}: {counts or 'nothing to do'}")
        for line in _lines(run) if run.dry_run else []:
            self.stdout.write(f"  {line}")
        for error in run.errors:
            self.stdout.write(f"  {error}")


def _name(actor: Actor) -> str:
    """Return the agent's name and id, and the user's id: a user has no other name."""
    name, key = actor.agent.name, actor.agent_id
    agent = key if name in ("", key) else f"{name} ({key})"
    return f"{agent} / {actor.user_id}" if actor.user_id else agent


def _lines(run: SleepRun) -> Iterator[str]:
    """Yield the weightiest changes of a preview, with what each is about but not its text; fading is only counted."""
    changes = [change for change in changes_of(run) if change["change"] != ChangeKind.DECAY]
    shown = changes[:SHOWN_CHANGES]
    rows = Memory.objects.of([run.actor_id]).in_bulk([change["memory_id"] for change in shown])
    for change in shown:
        if (memory := rows.get(UUID(change["memory_id"]))) is None:  # deleted concurrently
            continue
        words = change["change"].replace("_", " "), change["why"].replace("_", " ")
        numbers = f", strength {change['before']:.3g} → {change['after']:.3g}" if "before" in change else ""
        yield f"{words[0]} {memory.kind} {memory.pk} in {memory.namespace}{numbers}: {words[1]}"
    if left_out := len(changes) - len(shown):
        yield f"and {left_out} more; --json lists them"


def _sleeps(actors: list[Actor], sleep_request: SleepRequest, *, dry_run: bool, at_once: int) -> Iterator[SleepRun]:
    def preview(actor: Actor, may_go_on: Callable[[], bool]) -> list[SleepRun]:
        with suppress(UnknownRow):  # erased concurrently; preview the others
            return [preview_sleep(actor=actor, request=sleep_request)]
        return []

    def sleep(batch: Sequence[Actor], may_go_on: Callable[[], bool]) -> list[SleepRun]:
        return list(sleep_batch(actors=batch, request=sleep_request, may_go_on=may_go_on))

    if dry_run:
        parts = run_parallel(preview, actors, at_once=at_once)
    else:
        parts = run_parallel(sleep, actor_batches(actors, at_once=at_once), at_once=at_once)
    for runs in parts:
        yield from runs
