"""Print a day's project events in words, a paragraph for each agent or user in the agent's language."""

from datetime import date
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone, translation

from memoryhub.management import add_selection_options, selection_of
from memoryhub.tenancy.policies import zone_of
from memoryhub.zones import local_day
from summaries.actions.projects import daily_totals
from summaries.domain.projects import DayTotals, describe_day
from summaries.models import ProjectEvent


class Command(BaseCommand):
    help = (
        "Print what happened to projects in a day: reads, routes, corrections, updates, compactions and tokens. "
        "Of every agent and user with any of it, or of those that --agent and --user name."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_selection_options(parser)
        parser.add_argument("--day", help="The day, as 2026-03-01; today where it is left out.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            day = date.fromisoformat(options["day"]) if options["day"] else None
        except ValueError:
            raise CommandError(f"--day must be a day as 2026-03-01, not {options['day']!r}.") from None
        selection = selection_of(options)
        is_named = selection.user_id is not None
        actors = selection.actors().select_related("agent").order_by("agent__agent_id", "user_id")
        if not is_named:
            actors = actors.filter(id__in=ProjectEvent.objects.order_by("actor_id").values("actor_id").distinct())
        lines: list[str] = []
        for actor in actors:
            zone = zone_of(actor.agent, actor)
            actor_day = day or local_day(timezone.now(), zone)
            totals = daily_totals(actor_id=actor.pk, first=actor_day, last=actor_day, zone=zone)
            if totals or is_named:
                with translation.override(actor.agent.language):
                    text = describe_day(totals[0] if totals else DayTotals(actor_day))
                lines.append(f"{actor.agent_id}/{actor.user_id or '–'} {text}")
        self.stdout.write("\n".join(lines) or f"Nothing was done with projects on {day or timezone.localdate()}.")
