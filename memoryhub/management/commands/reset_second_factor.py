"""`manage.py reset_second_factor`: remove a user's second factor after phone and recovery codes were lost."""

from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from memoryhub.auth.principals import command
from memoryhub.auth.second_factor import turn_off


class Command(BaseCommand):
    help = "Turn off the second factor of an account."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("account", help="Name of the account.")

    def handle(self, *args: Any, **options: Any) -> None:
        person = User.objects.filter(username=options["account"]).first()
        if person is None:
            raise CommandError(f"There is no account {options['account']!r}.")
        was_on = turn_off(person, by=command("reset_second_factor"), now=datetime.now(UTC))
        self.stdout.write("It is off." if was_on else "This account has no second factor.")
