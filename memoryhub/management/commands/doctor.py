"""`manage.py doctor`: what is wrong with this installation, and what to do."""

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, OperationalError

from memoryhub.doctor import DIAGNOSES, Diagnosis, Finding, Level, language_model, model_trials
from memoryhub.runtime.postgres import explain_outage

MARKS = {Level.FINE: "ok", Level.WARNING: "!!", Level.BROKEN: "XX"}


def _look(diagnosis: Diagnosis) -> list[Finding]:
    try:
        return list(diagnosis())
    except OperationalError as error:
        return [Finding(Level.BROKEN, "database", explain_outage(error))]
    except DatabaseError as error:  # the message of a failed statement may quote a stored value
        detail = f"The database refuses a statement ({type(error).__name__}); its log says which."
        return [Finding(Level.BROKEN, diagnosis.__name__, detail)]


class Command(BaseCommand):
    help = (
        "Check database, workers, embedder, language model, keys and policies, and print what to do. The exit code is "
        "1 if something is broken, 0 for warnings. With --model the language model does eight small tasks instead; the "
        "exit code is 1 if it is not fit for a use."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--model", action="store_true", help="Try the language model, at the usual cost.")
        parser.add_argument("--json", action="store_true", help="Print the findings as JSON.")

    def handle(self, *args: Any, **options: Any) -> None:
        # Report an unreachable database once, not for each check that uses it.
        diagnoses = [language_model, model_trials] if options["model"] else DIAGNOSES
        findings = list(dict.fromkeys(finding for diagnosis in diagnoses for finding in _look(diagnosis)))
        if options["json"]:
            self.stdout.write(json.dumps([asdict(finding) for finding in findings], indent=2))
        else:
            for finding in findings:
                self.stdout.write(f"{MARKS[finding.level]}  {finding.subject}: {finding.detail}")
        broken = [finding.subject for finding in findings if finding.level is Level.BROKEN]
        if broken:
            raise CommandError(f"Broken: {', '.join(broken)}.")
