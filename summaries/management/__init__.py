"""The actor and the output of the project commands."""

from collections.abc import Mapping, Sequence

from django.core.management.base import CommandError, OutputWrapper

from memoryhub.importexport.native.exporter import Selection
from memoryhub.tenancy.models import Actor
from summaries.actions.files import FileReport
from summaries.domain.files import FileStatus
from summaries.models import Project


def only_actor(selection: Selection) -> Actor:
    """Return the actor that a selection names, else its only one with projects; CommandError for none or several."""
    selected = selection.actors().select_related("agent")
    if selection.user_id is not None:
        return selected.get()
    owners = Project.objects.order_by("actor_id").values_list("actor_id", flat=True).distinct()
    actors = list(selected.filter(id__in=owners)[:2])
    if not actors:
        raise CommandError("Nobody has a project yet.")
    if len(actors) > 1:
        raise CommandError("Several agents or users have projects; say whose with --agent and --user.")
    return actors[0]


def print_reports(
    reports: Sequence[FileReport], labels: Mapping[FileStatus, str], *, out: OutputWrapper, failure: str
) -> None:
    """Print the result of each file. Raises CommandError where some have problems."""
    for report in reports:
        out.write(f"{report.path}: {labels[report.status] if report.status else f'refused: {report.reason}'}")
    problems = sum(report.is_problem for report in reports)
    if problems:
        raise CommandError(f"{problems} of {len(reports)} {failure}.")
