"""Print what retention policies delete tonight, by agent and user."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from conversations.actions.retention import actors_with_retention, expired
from memoryhub.management import add_selection_options, selection_of


class Command(BaseCommand):
    help = "Print what retention policies delete tonight, and delete nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        add_selection_options(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        now = timezone.now()
        actors = actors_with_retention().filter(pk__in=selection_of(options).actors().order_by().values("pk"))
        lines = []
        for actor in actors:
            if counts := expired(actor, now).counts():
                told = ", ".join(f"{count} {kind}" for kind, count in counts.items())
                lines.append(f"{actor.agent_id}/{actor.user_id or '–'} {told}")
        self.stdout.write("\n".join(lines) or "Tonight nothing is deleted.")
