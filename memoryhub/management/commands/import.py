"""`manage.py import`: take in an export of this program, of mem0, or of ChatGPT."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from memoryhub.auth.domain import command
from memoryhub.auth.tenancy import UnknownRow
from memoryhub.importexport.formats import (
    IMPORT_FORMATS,
    CannotImport,
    Order,
    elements,
    recognised,
    take_elements,
)
from memoryhub.importexport.importer import Names, check, check_names, store
from memoryhub.importexport.jsonl import BrokenFile, Report
from memoryhub.llm.errors import ProviderError
from memoryhub.management import ResumableCommand

AUTO, OWN = "auto", "memoryhub"
SHOWN_NOTES = 50
HEADER = b'{"memoryhub":'


class Command(ResumableCommand):
    help = (
        "Take in an export of this program (ids, times and revisions kept), of mem0 (its memories), or of ChatGPT "
        "(conversations.json: conversations and what it remembered). What is here already stays as it is."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", help="The export; - is the standard input.")
        parser.add_argument(
            "--dry-run", action="store_true", help="Say what would happen and why; change nothing."
        )
        parser.add_argument(
            "--agent", help="The agent that it is filed under, in place of the one in the file."
        )
        parser.add_argument(
            "--user", help="The user that it is filed under, in place of the one in the file."
        )
        parser.add_argument("--format", choices=[AUTO, OWN, *IMPORT_FORMATS], default=AUTO)
        parser.add_argument(
            "--untrusted",
            action="store_true",
            help="Take in conversations, memories and summaries alone; memories wait for a curator.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        names = Names(options["agent"], options["user"])
        try:
            check_names(names)
            with _opened(options["file"]) as file:
                report = self._import(file, names, options)
        except (BrokenFile, CannotImport, ProviderError) as error:
            raise CommandError(str(error)) from error
        except UnknownRow as error:
            raise CommandError(f"{error} What was taken in before stays.") from error
        except OSError as error:
            raise CommandError(f"Cannot read {options['file']}: {error.strerror}.") from error
        self._tell(report, dry_run=options["dry_run"])

    def _import(self, file: BinaryIO, names: Names, options: dict[str, Any]) -> Report:
        form = options["format"] if options["format"] != AUTO else _form(file)
        by = replace(command("import"), is_trusted=not options["untrusted"])
        now, dry_run = timezone.now(), options["dry_run"]
        with self.progress_bar() as bar:
            if form == OWN:
                looking = bar.add_task("Checking", total=None)
                checked = check(file, names, progress=lambda n: bar.advance(looking, n))
                file.seek(0)
                taking = bar.add_task("Importing", total=checked.lines)
                return store(
                    file,
                    checked,
                    names,
                    by=by,
                    now=now,
                    dry_run=dry_run,
                    progress=lambda n: bar.advance(taking, n),
                )
            taking = bar.add_task("Importing", total=None)
            order = Order(
                names=names, by=by, now=now, progress=lambda n: bar.advance(taking, n),
            )  # fmt: skip
            return take_elements(form, elements(file), order=order, dry_run=dry_run)

    def _tell(self, report: Report, *, dry_run: bool) -> None:
        for note in report.notes[:SHOWN_NOTES]:
            self.stdout.write(str(note))
        if len(report.notes) > SHOWN_NOTES:
            for why, count in sorted(report.reasons.items()):
                self.stdout.write(f"{count} × {why}")
        for name in sorted({*report.made, *report.known, *report.refused}):
            counts = (report.made[name], report.known[name], report.refused[name])
            self.stdout.write("{}: {} new, {} here already, {} refused".format(name, *counts))
        sums = [sum(each.values()) for each in (report.made, report.known, report.refused)]
        told = "{} new, {} here already, {} refused.".format(*sums)
        self.stdout.write(f"{'Would be' if dry_run else 'Imported'}: {told}")


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    """Open a file; what comes through the standard input is put into one, for it is read twice."""
    if name != "-":
        with Path(name).open("rb") as file:
            yield file
        return
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.seek(0)
        yield copy


def _form(file: BinaryIO) -> str:
    """Return what the file is, by its beginning; raises BrokenFile where nobody knows it."""
    begins = file.read(len(HEADER))
    file.seek(0)
    if begins == HEADER:
        return OWN
    readable = (each for each in elements(file) if not each.problem)
    form = next((name for each in readable if (name := recognised(each))), "")
    file.seek(0)
    if not form:
        raise BrokenFile("Nobody here knows this file: name its --format.")
    return form
