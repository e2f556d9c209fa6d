"""Set up a new installation: embedding space, admin account, API key, demo."""

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from unicodedata import east_asian_width

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandParser
from django.db import transaction
from django.utils import translation
from django.utils.translation import gettext as _

from memoryhub.auth.actions import issue_key
from memoryhub.auth.models import ApiKey, AuditEntry
from memoryhub.auth.principals import Scope, command
from memoryhub.db.schema import schema_turn
from memoryhub.embeddings.spaces import active_space
from memoryhub.env import data_folder, read_environment
from memoryhub.importexport.demo import load_demo
from memoryhub.jobs.hosts import differences
from memoryhub.llm.errors import ProviderError
from memoryhub.runtime.supervisor import web_url
from memoryhub.tenancy.models import Agent

ADMIN = "admin"
CHANGE: Final = ".venv/bin/python manage.py changepassword"
FIRST_KEY = "first run"
FIRST_LOGIN: Final = "first-login.txt"
"""File of the data folder with the first login and key, where the output is no terminal."""
FIRST = command("first_run")
FIRST_WITH_DEMO = command("first_run_with_demo")
"""Principals of the first key; they record whether a demo was to follow, in case the setup is interrupted."""


class Command(BaseCommand):
    help = "Create an admin login, an API key and the demo where there are none, and print what is new."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--url", default="", help="The address that the printed lines name.")
        parser.add_argument(
            "--print", action="store_true", help="Print login and key even where the output is no terminal."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        environment = read_environment()
        url = options["url"] or web_url(environment)
        now, users, password, key = datetime.now(UTC), get_user_model().objects, None, None
        for sentence in settings.INEFFECTIVE_SETTINGS:
            self.stderr.write(f"  Settings   {sentence}")
        for _name, sentence in differences():
            self.stderr.write(f"  Hosts      {sentence}")
        try:
            active_space()
        except ProviderError as error:
            # The server runs without an embedder; `doctor` and /readyz report it.
            self.stderr.write(f"  Embedder   {error}")
        with schema_turn(self.stdout.write):  # two hosts that start at once would each make a login and the demo
            with transaction.atomic():
                if not users.filter(is_superuser=True).exists():
                    password = secrets.token_urlsafe(12)
                    users.create_superuser(ADMIN, password=password)
                if not ApiKey.objects.exists():
                    by = FIRST_WITH_DEMO if environment.demo else FIRST
                    key = issue_key(name=FIRST_KEY, scopes=list(Scope), by=by, now=now)[1].text
            # Print at once: they are shown only here, and the process may be stopped during the demo's import.
            self._print(url, password, key, None if options["print"] else environment.data_dir)
            trail = AuditEntry.objects
            is_promised = trail.filter(who_kind=FIRST_WITH_DEMO.kind, who_id=FIRST_WITH_DEMO.id).exists()
            has_agents = Agent.objects.exists() or trail.exclude(agent_id="").exists()
            if environment.demo and is_promised and not has_agents:
                load_demo(by=command("demo"), now=datetime.now(UTC))

    def _print(self, url: str, password: str | None, key: str | None, folder: Path | None) -> None:
        with translation.override(terminal_language(os.environ)):
            first = _("(try this first)")
            lines = ["", _line(_("Admin"), f"{url}/admin/"), _line(_("Talk"), f"{url}/admin/talk/   {first}")]
            lines.append(_line(_("API docs"), f"{url}/api/v1/docs"))
            once, secret = _("(shown once)"), list[str]()
            if password:
                secret.append(_line(_("Login"), f"{ADMIN} / {password}   {once}"))
            else:
                lost = _("as before; lost it? {command}").format(command=f"{CHANGE} {ADMIN}")
                lines.append(_line(_("Login"), lost))
            if key:
                secret += [
                    _line(_("API key"), f"{key}   {once}"),
                    f"  {_('Try it once the server is ready:')}",
                    f"  {_try(url, key)}",
                ]
            else:
                lines.append(_line(_("API key"), _("as before; a new one: admin, API keys, Add")))
            if secret and folder and not self.stdout.isatty():  # a journal or a log keeps what is printed
                path = folder / FIRST_LOGIN
                _append_private(path, secret)
                secret = [_line(_("Login"), _("in the file {path}; delete it once you have read it").format(path=path))]
        self.stdout.write("\n".join([*lines, *secret, ""]))
        self.stdout.flush()


def _append_private(path: Path, lines: Sequence[str]) -> None:
    """Append lines to a file that only its owner can read, whatever the umask."""
    data_folder(path.parent)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "a", encoding="utf-8") as file:
        os.fchmod(descriptor, 0o600)
        file.write("\n".join([*lines, ""]))


def terminal_language(environment: Mapping[str, str]) -> str:
    """Return the terminal's language, if supported, from the POSIX locale variables."""
    names = (environment.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    first = next(filter(None, names), "")
    return "ja" if first.lower().startswith("ja") else "en"


def _line(name: str, value: str) -> str:
    """Return a name and its value in columns; a Japanese letter is as wide as two others."""
    width = sum(2 if east_asian_width(letter) in "WF" else 1 for letter in name)
    return f"  {name}{' ' * max(1, 11 - width)}{value}"


def _try(url: str, key: str) -> str:
    request = f"agents -H 'Authorization: Bearer {key}'"
    if read_environment().demo:
        agent, message = _("release-assistant"), _("What do you remember?")
        body = json.dumps({"agent_id": agent, "message": message}, ensure_ascii=False)
        request = f"context -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' -d '{body}'"
    return f"curl -s {url}/api/v1/{request}"
