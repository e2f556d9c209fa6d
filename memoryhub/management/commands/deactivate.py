"""`manage.py deactivate`: deactivate the account of a person who leaves, with all that it gives access to."""

from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from memoryhub.auth.leaving import deactivate
from memoryhub.auth.principals import command
from memoryhub.management import check_reason


class Command(BaseCommand):
    help = "Deactivate an account; end its sessions, personal keys and connected clients."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("account", help="Name of the account.")
        parser.add_argument("--reason", default="", help="Kept in the audit trail.")

    def handle(self, *args: Any, **options: Any) -> None:
        check_reason(options["reason"])
        person = User.objects.filter(username=options["account"]).first()
        if person is None:
            raise CommandError(f"There is no account {options['account']!r}.")
        ended = deactivate(person, reason=options["reason"], by=command("deactivate"), now=datetime.now(UTC))
        self.stdout.write(
            f"{person.username} is not active. Ended: {ended.sessions} sessions, {ended.keys} personal keys, "
            f"{ended.clients} connected clients."
        )
