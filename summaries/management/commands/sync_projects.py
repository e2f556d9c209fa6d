"""Import changes of exported files."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from memoryhub.auth.principals import command
from memoryhub.management import add_selection_options, selection_of
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policy import actor_id
from summaries.actions.files import ForeignTree, SyncContext, UnusableFile, read_manifest, sync_projects
from summaries.domain.files import BadManifest, FileStatus
from summaries.management import only_actor, print_reports

STATUS_LABELS = {
    FileStatus.SAME: "unchanged",
    FileStatus.EDITED: "taken over",
    FileStatus.NEW: "new, taken over",
    FileStatus.NEWER: "changed here; export it again",
    FileStatus.CONFLICT: "CONFLICT: the file was changed, and so was the document; nothing was written",
    FileStatus.FILE_GONE: "the file is gone; the document stays",
    FileStatus.DOCUMENT_GONE: "deleted here; the file stays",
}
DRY_RUN_LABELS = {**STATUS_LABELS, FileStatus.EDITED: "would be taken over", FileStatus.NEW: "new, would be taken over"}


class Command(BaseCommand):
    help = (
        "Import files of DIR/projects that were changed since they were exported. A document that was changed too is a "
        "conflict: it is reported, and not overwritten."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("dir", metavar="DIR", help="The folder that projects were exported into.")
        parser.add_argument("--dry-run", action="store_true", help="Show what would be done; change nothing.")
        add_selection_options(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        root, dry_run, selection = Path(options["dir"]), options["dry_run"], selection_of(options)
        try:
            exporter = _exported_from(root) if selection.agent_id is None else None
            actor = exporter or only_actor(selection)
            syncing = SyncContext(actor, command("sync_projects"), timezone.now(), dry_run)
            reports = sync_projects(syncing=syncing, root=root)
        except FileNotFoundError:
            raise CommandError(f"{root} holds no projects.") from None
        except (UnusableFile, BadManifest, ForeignTree) as error:
            raise CommandError(f"{root}: {error}") from error
        if not reports:
            self.stdout.write(f"Nothing to take over: {root} holds no files of projects.")
        labels = DRY_RUN_LABELS if dry_run else STATUS_LABELS
        print_reports(reports, labels, out=self.stdout, failure="were not taken over")


def _exported_from(root: Path) -> Actor | None:
    """Return the actor that a tree's manifest names; CommandError where it is unknown."""
    manifest = read_manifest(root)
    if manifest is None:
        return None
    key = actor_id(manifest.agent_id, manifest.user_id)
    actor = Actor.objects.select_related("agent").filter(id=key).first()
    if actor is None:
        raise CommandError("These are the projects of an agent or user that is not known here.")
    return actor
