"""`manage.py export`: everything of an actor, of an agent with its users, or of everybody, into a file."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from memoryhub.auth.principals import command
from memoryhub.importexport.native.exporter import EXPORT_FORMATS, TREE_EXPORTS, Selection, export
from memoryhub.management import add_selection_options, selection_of

JSON_LINES, MARKDOWN = "jsonl", "markdown"
OWNER_ONLY = 0o600


class Command(BaseCommand):
    help = (
        "Write everything of an actor as JSON Lines, which `import` reads without loss, memories as CSV, or "
        "conversations as Open WebUI or ChatGPT export them. Without "
        "--agent: of everybody. With --agent alone: of the agent and all its users."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", nargs="?", default="-", help="Where to; - is the standard output.")
        add_selection_options(parser)
        parser.add_argument(
            "--format",
            choices=[JSON_LINES, *EXPORT_FORMATS, MARKDOWN],
            default=JSON_LINES,
            help="markdown: memories and projects of one actor as notes, into a folder; `import` reads edits back.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        selection = selection_of(options)
        if options["format"] == MARKDOWN:
            self._export_tree(selection, options["file"])
            return
        pieces = (export if options["format"] == JSON_LINES else EXPORT_FORMATS[options["format"]])(selection)
        if options["file"] == "-":
            for piece in pieces:
                self.stdout.write(piece.decode(), ending="")
            return
        try:
            size = _write(Path(options["file"]), pieces)
        except OSError as error:
            raise CommandError(f"Cannot write {options['file']}: {error.strerror}.") from error
        self.stdout.write(f"Wrote {options['file']} ({size} bytes).")

    def _export_tree(self, selection: Selection, folder: str) -> None:
        actors = list(selection.actors().select_related("agent")[:2]) if selection.user_id is not None else []
        if folder == "-" or len(actors) != 1:
            raise CommandError("--format markdown needs a folder, --agent and --user.")
        by, now = command("export"), timezone.now()
        try:
            unchanged = [
                line for write in TREE_EXPORTS for line in write(actor=actors[0], root=Path(folder), by=by, now=now)
            ]
        except OSError as error:
            raise CommandError(f"Cannot write {folder}: {error.strerror}.") from error
        for line in unchanged:
            self.stdout.write(line)
        self.stdout.write(f"Wrote {folder}; {len(unchanged)} files were left as they are.")


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
