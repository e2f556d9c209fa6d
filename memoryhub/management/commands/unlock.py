"""`manage.py unlock`: end a lockout after too many wrong passwords."""

from argparse import ArgumentTypeError
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from memoryhub.auth.login import unlock
from memoryhub.auth.principals import command


def _address(text: str) -> str:
    """Return an IP address as it is stored, as argparse's `type`. Raises ValueError for what is none."""
    try:
        return str(ip_address(text))
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no IP address") from None


class Command(BaseCommand):
    help = "Forget the wrong passwords of an account, of an address, or all."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("account", nargs="?", default="", help="Name of the account.")
        parser.add_argument("--address", type=_address, help="IP address that the passwords came from.")
        parser.add_argument("--all", action="store_true", help="All accounts and addresses.")

    def handle(self, *args: Any, **options: Any) -> None:
        account, address = options["account"], options["address"] or ""
        if options["all"] == bool(account or address):
            raise CommandError("Name an account, an --address, or --all.")
        many = unlock(username=account, address=address, by=command("unlock"), now=datetime.now(UTC))
        self.stdout.write("Unlocked." if many else "Nothing was locked.")
