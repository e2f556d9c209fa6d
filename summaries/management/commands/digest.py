"""Print a day's project events in words, a paragraph for each agent or user in the agent's language."""

from datetime import date
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone, translation

from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import zone_of
from memoryhub.zones import local_day
from summaries.actions.projects import daily_totals
from summaries.domain.projects import DayTotals, describe_day
from summaries.management import add_actor_options, named_actor
from summaries.models import ProjectEvent


class Command(BaseCommand):
    help = (
        "Print what happened to projects in a day: reads, routes, corrections, updates, compactions and tokens. "
        "Without --agent: for every agent and user with any of it."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_actor_options(parser)
        parser.add_argument("--day", help="The day, as 2026-03-01; today where it is left out.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            day = date.fromisoformat(options["day"]) if options["day"] else None
        except ValueError:
            raise CommandError(f"--day must be a day as 2026-03-01, not {options['day']!r}.") from None
        named = named_actor(options)
        ids = ProjectEvent.objects.order_by("actor_id").values_list("actor_id", flat=True).distinct()
        actors = Actor.objects.select_related("agent").filter(id__in=ids)
        lines: list[str] = []
        for actor in [named] if named else actors.order_by("agent__agent_id", "user_id"):
            zone = zone_of(actor.agent, actor)
            actor_day = day or local_day(timezone.now(), zone)
            totals = daily_totals(actor_id=actor.pk, first=actor_day, last=actor_day, zone=zone)
            if totals or named:
                with translation.override(actor.agent.language):
                    text = describe_day(totals[0] if totals else DayTotals(actor_day))
                lines.append(f"{actor.agent_id}/{actor.user_id or '–'} {text}")
        self.stdout.write("\n".join(lines) or f"Nothing was done with projects on {day or timezone.localdate()}.")
