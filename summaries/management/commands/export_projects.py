"""Write projects as files, for agents that read files."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from memoryhub.auth.principals import command
from memoryhub.management import add_selection_options, selection_of
from summaries.actions.files import ForeignTree, UnusableFile, export_projects
from summaries.domain.files import BadManifest, FileStatus
from summaries.management import only_actor, print_reports

STATUS_LABELS = {
    FileStatus.SAME: "unchanged",
    FileStatus.WRITE: "written",
    FileStatus.EDITED: "left as it is: the file was changed; sync it first",
    FileStatus.CONFLICT: "CONFLICT: the file was changed, and so was the document; nothing was overwritten",
    FileStatus.DOCUMENT_GONE: "left as it is: the project was deleted here",
}


class Command(BaseCommand):
    help = (
        "Write projects of one agent or user into DIR/projects/<name>/…. A file that was changed since the last export "
        "is left as it is."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("dir", metavar="DIR", help="The folder; it is made where there is none.")
        add_selection_options(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        actor = only_actor(selection_of(options))
        root = Path(options["dir"])
        try:
            reports = export_projects(actor=actor, root=root, by=command("export_projects"), now=timezone.now())
        except (UnusableFile, BadManifest, ForeignTree) as error:
            raise CommandError(f"{root}: {error}") from error
        if not reports:
            self.stdout.write("Nothing to export: there is no project.")
        print_reports(reports, STATUS_LABELS, out=self.stdout, failure="were not written")
