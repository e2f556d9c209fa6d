"""`manage.py jobs`: list jobs that failed or are dead, and retry them, as the admin does."""

import json
from collections import Counter
from typing import Any, Final
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import QuerySet
from django.utils import timezone

from memoryhub.auth.actions import retry_jobs
from memoryhub.auth.principals import command
from memoryhub.jobs.models import Job
from memoryhub.jobs.registry import KINDS
from memoryhub.management import add_selection_options, check_reason, selection_of

BY: Final = command("jobs")
SLICE: Final = 1000
"""Jobs that one transaction retries."""


class Command(BaseCommand):
    help = "List jobs that failed or are dead, and put them back into the queue."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="list | retry")
        listed = verbs.add_parser("list", help="List failed and dead jobs, the latest first.")
        listed.add_argument("--json", action="store_true", help="One JSON object for each job, one on a line.")
        retry = verbs.add_parser("retry", help="Retry failed and dead jobs, each up to three times.")
        retry.add_argument("job", nargs="*", type=UUID, help="Ids, as `jobs list` shows them.")
        retry.add_argument("--all", action="store_true", help="All of them, in place of ids.")
        retry.add_argument("--dry-run", action="store_true", help="Show what would be done; change nothing.")
        retry.add_argument("--reason", default="", help="Kept in the audit trail.")
        for verb in (listed, retry):
            verb.add_argument("--kind", choices=sorted(KINDS), metavar="KIND", help="Of this kind alone, as `extract`.")
            verb.add_argument("--error", metavar="TEXT", help="Those alone whose error contains this.")
            add_selection_options(verb)

    def handle(self, *args: Any, **options: Any) -> None:
        jobs = _chosen(options)
        if options["verb"] == "list":
            self._list(jobs, as_json=options["json"])
        else:
            self._retry(jobs, options)

    def _list(self, jobs: QuerySet[Job], *, as_json: bool) -> None:
        is_empty = True
        for job in jobs.order_by("-finished_at", "-pk").select_related("actor").iterator():
            is_empty = False
            values = _values(job)
            line = json.dumps(values, ensure_ascii=False) if as_json else "  ".join(map(str, values.values()))
            self.stdout.write(line)
        if is_empty:
            self.stderr.write("No such job failed or is dead.")

    def _retry(self, jobs: QuerySet[Job], options: dict[str, Any]) -> None:
        ids = options["job"]
        if bool(ids) == options["all"]:
            raise CommandError("Name jobs by their ids, or say --all.")
        check_reason(options["reason"])
        chosen = jobs.filter(pk__in=ids) if ids else jobs
        found = list(chosen.order_by("finished_at", "pk").values_list("pk", "kind"))
        if options["dry_run"]:
            kinds = Counter(kind for _, kind in found)
            named = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
            self.stdout.write(f"Would be retried: {len(found)} jobs{f' ({named})' if named else ''}.")
        else:
            keys, count, reason = [key for key, _ in found], 0, options["reason"]
            for start in range(0, len(keys), SLICE):
                count += retry_jobs(job_ids=keys[start : start + SLICE], by=BY, reason=reason, now=timezone.now())
            self.stdout.write(f"{count} jobs are queued again.")
        if missing := set(ids) - {key for key, _ in found}:
            named = ", ".join(sorted(map(str, missing)))
            raise CommandError(f"These are no failed or dead jobs of those chosen: {named}.")


def _chosen(options: dict[str, Any]) -> QuerySet[Job]:
    """Return the failed and dead jobs that the options select. Raises CommandError."""
    jobs, selection = Job.objects.ended_badly(), selection_of(options)
    if selection.agent_id is not None:
        jobs = jobs.filter(actor__in=selection.actors())
    if options["kind"]:
        jobs = jobs.filter(kind=options["kind"])
    if options["error"]:
        jobs = jobs.filter(error__icontains=options["error"])
    return jobs


def _values(job: Job) -> dict[str, Any]:
    return {
        "id": str(job.pk),
        "finished_at": job.finished_at and job.finished_at.isoformat(timespec="seconds"),
        "state": job.state,
        "kind": job.kind,
        "agent": job.actor.agent_id if job.actor else None,
        "user": job.actor.user_id if job.actor else None,
        "attempts": job.attempts,
        "error": job.error,
    }
