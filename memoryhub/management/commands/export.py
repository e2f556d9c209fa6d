"""`manage.py export`: everything of an actor, of an agent with its users, or of everybody, into a file."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from memoryhub.auth.tenancy import UnknownRow
from memoryhub.importexport.exporter import Selection, export
from memoryhub.importexport.formats import EXPORT_FORMATS

JSON_LINES = "jsonl"
OWNER_ONLY = 0o600


class Command(BaseCommand):
    help = (
        "Write everything of an actor as JSON Lines, which `import` reads without loss, or memories as CSV. Without "
        "--agent: of everybody. With --agent alone: of the agent and all its users."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", nargs="?", default="-", help="Where to; - is the standard output.")
        parser.add_argument("--agent", help="One agent, with all its users.")
        parser.add_argument("--user", help="One user of the agent; an empty one is the agent itself.")
        parser.add_argument("--format", choices=[JSON_LINES, *EXPORT_FORMATS], default=JSON_LINES)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["user"] is not None and not options["agent"]:
            raise CommandError("--user needs --agent: a user's memory is an agent's memory of that user.")
        whose = Selection(options["agent"], options["user"])
        try:
            whose.check()
        except UnknownRow as error:
            raise CommandError(str(error)) from error
        pieces = (export if options["format"] == JSON_LINES else EXPORT_FORMATS[options["format"]])(whose)
        if options["file"] == "-":
            for piece in pieces:
                self.stdout.write(piece.decode(), ending="")
            return
        try:
            size = _write(Path(options["file"]), pieces)
        except OSError as error:
            raise CommandError(f"Cannot write {options['file']}: {error.strerror}.") from error
        self.stdout.write(f"Wrote {options['file']} ({size} bytes).")


def _write(file: Path, pieces: Iterator[bytes]) -> int:
    """Write the file whole or not at all, for its owner's eyes alone; return its size."""
    part = file.with_name(f"{file.name}.part")
    part.unlink(missing_ok=True)
    size = 0
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "wb") as out:
            for piece in pieces:
                size += out.write(piece)
            out.flush()
            os.fsync(out.fileno())
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
    return size
