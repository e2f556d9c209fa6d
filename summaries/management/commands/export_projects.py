"""`manage.py export_projects`: projects as files, for agents that read files."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from memoryhub.auth.domain import command
from summaries.actions.files import ForeignTree, export_projects
from summaries.actions.folder import UnusableFile
from summaries.domain.files import BadManifest, FileStatus
from summaries.management.actor_options import add_actor_options, named_actor, only_actor

WORDS = {
    FileStatus.SAME: "unchanged",
    FileStatus.WRITE: "written",
    FileStatus.EDITED: "left as it is: the file was changed; sync it first",
    FileStatus.CONFLICT: "CONFLICT: the file was changed, and so was the document; nothing was overwritten",
    FileStatus.DOCUMENT_GONE: "left as it is: the project was deleted here",
}


class Command(BaseCommand):
    """Writes the tree and tells of each file; exits with 1 where one was not written."""

    help = "Write projects into DIR/projects/<name>/…. A file that was changed since the last export is left as it is."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take where to, and whose."""
        parser.add_argument("dir", metavar="DIR", help="The folder; it is made where there is none.")
        add_actor_options(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Export; CommandError where a file was not written, or the folder cannot be used."""
        actor = named_actor(options) or only_actor()
        root = Path(options["dir"])
        try:
            told = export_projects(actor=actor, root=root, by=command("export_projects"), now=timezone.now())
        except (UnusableFile, BadManifest, ForeignTree) as error:
            raise CommandError(f"{root}: {error}") from error
        for each in told:
            self.stdout.write(
                f"{each.path}: {WORDS[each.verdict] if each.verdict else f'refused: {each.why}'}"
            )
        if not told:
            self.stdout.write("Nothing to export: there is no project.")
        problems = sum(each.is_problem for each in told)
        if problems:
            raise CommandError(f"{problems} of {len(told)} were not written.")
