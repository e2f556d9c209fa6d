"""`manage.py doctor`: what is wrong with this installation, and what to do."""

import json
from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from django.utils.module_loading import import_string

from memoryhub.api.diagnosis import Finding, Level
from memoryhub.runtime.postgres.errors import explain_outage

MARKS = {Level.FINE: "ok", Level.WARNING: "!!", Level.BROKEN: "XX"}


def _look(path: str) -> list[Finding]:
    try:
        return list(import_string(path)())
    except DatabaseError as error:
        return [Finding(Level.BROKEN, path.rpartition(".")[2], explain_outage(error))]


class Command(BaseCommand):
    """Runs every diagnosis of the settings' table; exits with 1 where something is broken."""

    help = "Look at database, embedder, tokens, keys and policies, and say what to do about each finding."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the form of the answer."""
        parser.add_argument("--json", action="store_true", help="Print the findings as JSON.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the findings; raises CommandError where one is broken."""
        findings = [finding for path in settings.DIAGNOSES for finding in _look(path)]
        if options["json"]:
            self.stdout.write(json.dumps([asdict(finding) for finding in findings], indent=2))
        else:
            for finding in findings:
                self.stdout.write(f"{MARKS[finding.level]}  {finding.subject}: {finding.detail}")
        broken = [finding.subject for finding in findings if finding.level is Level.BROKEN]
        if broken:
            raise CommandError(f"Broken: {', '.join(broken)}.")
