"""`manage.py import`: take in an export of this program, or what another system has exported."""

import shutil
import sys
import tempfile
from argparse import ArgumentTypeError
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import transaction
from django.utils import timezone

from memoryhub.auth.access import UnknownRow
from memoryhub.auth.principals import command
from memoryhub.importexport.foreign.archives import open_archive
from memoryhub.importexport.foreign.formats import FORMATS, format_labels
from memoryhub.importexport.foreign.formats.table import MEANINGS, parse_columns
from memoryhub.importexport.foreign.imports import (
    CannotImport,
    ImportContext,
    dry_step,
    import_records,
    resolve_format,
    store_report,
)
from memoryhub.importexport.foreign.services import SERVICES, SETTING, Download
from memoryhub.importexport.native.importer import TargetNames, check, check_names, store
from memoryhub.importexport.native.jsonl import BrokenFile, Report
from memoryhub.llm.errors import ProviderError
from memoryhub.management import ResumableCommand

AUTO, OWN = "auto", "memoryhub"
SHOWN_NOTES = 50
HEADER = b'{"memoryhub":'


class Command(ResumableCommand):
    help = (
        "Take in an export of this program (ids, times and revisions kept), or of another system: a file, a zip as it "
        f"was downloaded, or a folder. What is here already stays. Other systems: {format_labels()}."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", help="The export, or a folder; - is the standard input.")
        parser.add_argument("--dry-run", action="store_true", help="Show what would be done; change nothing.")
        parser.add_argument("--agent", help="The agent that it is filed under, in place of the one in the file.")
        parser.add_argument("--user", help="The user that it is filed under, in place of the one in the file.")
        parser.add_argument("--format", choices=[AUTO, OWN, *FORMATS], default=AUTO)
        parser.add_argument(
            "--map",
            type=_columns,
            default={},
            metavar="MEANING=COLUMN,…",
            help=f"Columns of a CSV or JSON Lines file: content=text,created_at=date. {MEANINGS}",
        )
        parser.add_argument(
            "--url",
            help="Address of a Honcho or Hindsight server, with --format: its pages are downloaded into FILE first. "
            f"The token is read from {SETTING}. The same command continues an interrupted download.",
        )
        parser.add_argument("--space", default="", help="The workspace or bank to download; all without it.")
        parser.add_argument("--assistants", default="", help="Honcho's peers that are assistants: NAME,NAME,…")
        parser.add_argument(
            "--untrusted",
            action="store_true",
            help="Take in conversations, memories and summaries alone; memories wait for a curator.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        names = TargetNames(options["agent"], options["user"])
        try:
            check_names(names)
            if options["url"]:
                self._download(options)
            with _opened(options["file"]) as path:
                report = self._import(path, names, options)
        except (BrokenFile, CannotImport, ProviderError) as error:
            raise CommandError(str(error)) from error
        except UnknownRow as error:
            raise CommandError(f"{error} What was taken in before stays.") from error
        except OSError as error:
            raise CommandError(f"Cannot read {options['file']}: {error.strerror}.") from error
        self._print_report(report, dry_run=options["dry_run"])

    def _download(self, options: dict[str, Any]) -> None:
        if options["format"] not in SERVICES or options["file"] == "-":
            raise CommandError(f"--url needs a file name, and --format with one of: {', '.join(SERVICES)}.")
        with self.progress_bar() as bar:
            pages = bar.add_task("Downloading pages", total=None)
            download = Download(
                options["format"],
                options["url"],
                Path(options["file"]),
                token=settings.IMPORT_TOKEN,
                on_page=lambda: bar.advance(pages),
            )
            assistants = [name.strip() for name in options["assistants"].split(",") if name.strip()]
            with closing(download):
                SERVICES[options["format"]](download, options["space"], assistants)

    def _import(self, path: Path, names: TargetNames, options: dict[str, Any]) -> Report:
        by = replace(command("import"), is_trusted=not options["untrusted"])
        if options["format"] == OWN or (options["format"] == AUTO and _is_own(path)):
            with path.open("rb") as file:
                return self._import_own(file, names, by, options["dry_run"])
        archive = open_archive(path, columns=options["map"])
        format = resolve_format(archive, "" if options["format"] == AUTO else options["format"], names)
        context = ImportContext(
            format=format, names=names, by=by, now=timezone.now(), dry_run=options["dry_run"], file_name=path.name
        )
        with self.progress_bar() as bar:
            importing = bar.add_task("Importing", total=archive.total)

            @contextmanager
            def step(number: int) -> Iterator[None]:
                with dry_step(context) if context.dry_run else transaction.atomic():
                    yield
                bar.update(importing, completed=archive.done)

            import_records(archive, context=context, step=step)
        if context.row is not None:
            store_report(context.row, context)
        return context.report

    def _import_own(self, file: BinaryIO, names: TargetNames, by: Any, dry_run: bool) -> Report:
        with self.progress_bar() as bar:
            checking = bar.add_task("Checking", total=None)
            checked = check(file, names, progress=lambda n: bar.advance(checking, n))
            file.seek(0)
            importing = bar.add_task("Importing", total=checked.lines)
            return store(
                file,
                checked,
                names,
                by=by,
                now=timezone.now(),
                dry_run=dry_run,
                progress=lambda n: bar.advance(importing, n),
            )

    def _print_report(self, report: Report, *, dry_run: bool) -> None:
        for note in report.notes[:SHOWN_NOTES]:
            self.stdout.write(str(note))
        if len(report.notes) > SHOWN_NOTES:
            for reason, count in sorted(report.reasons.items()):
                self.stdout.write(f"{count} × {reason}")
        for reason, count in report.dropped.most_common():
            examples = "; ".join(filter(None, report.examples.get(reason, [])))
            self.stdout.write(f"Left out: {count} × {reason}{f' Such as {examples}.' if examples else ''}")
        for name in sorted({*report.made, *report.known, *report.refused}):
            counts = (report.made[name], report.known[name], report.refused[name])
            self.stdout.write("{}: {} new, {} here already, {} refused".format(name, *counts))
        if report.tokens:
            self.stdout.write(f"New messages have about {report.tokens:,} tokens.")
        sums = [sum(counter.values()) for counter in (report.made, report.known, report.refused)]
        counted = "{} new, {} here already, {} refused.".format(*sums)
        self.stdout.write(f"{'Would be' if dry_run else 'Imported'}: {counted}")


def _columns(text: str) -> dict[str, str]:
    try:
        return parse_columns(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


@contextmanager
def _opened(name: str) -> Iterator[Path]:
    """Return the path of a file; what comes through the standard input is put into one, for it is read twice."""
    if name != "-":
        yield Path(name)
        return
    with tempfile.NamedTemporaryFile() as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield Path(copy.name)


def _is_own(path: Path) -> bool:
    if path.is_dir():
        return False
    with path.open("rb") as file:
        return file.read(len(HEADER)) == HEADER
