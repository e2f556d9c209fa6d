"""Shared options and output of the project commands."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.management.base import CommandError, CommandParser, OutputWrapper

from memoryhub.management import unknown_agent, unknown_user
from memoryhub.tenancy.domain import actor_id
from memoryhub.tenancy.models import Actor, Agent
from summaries.actions.files import FileReport
from summaries.domain.files import FileStatus
from summaries.models import Project


def add_actor_options(parser: CommandParser) -> None:
    parser.add_argument("--agent", help="The agent. Needed where several agents or users have projects.")
    parser.add_argument("--user", help="One user of the agent; without it the agent itself.")


def named_actor(options: dict[str, Any]) -> Actor | None:
    """Return the actor that the options name, None where they name none; CommandError for an unknown one."""
    if options["agent"] is None:
        if options["user"] is not None:
            raise CommandError("--user needs --agent: a user's memory is an agent's memory of that user.")
        return None
    agent = Agent.objects.filter(agent_id=options["agent"]).first()
    if agent is None:
        raise unknown_agent(options["agent"])
    user = agent.fixed_user_id or options["user"] or ""
    actor = Actor.objects.select_related("agent").filter(id=actor_id(agent.agent_id, user)).first()
    if actor is None:
        raise unknown_user(agent.agent_id, user)
    return actor


def only_actor() -> Actor:
    """Return the only actor with projects; CommandError for none or several."""
    owners = Project.objects.order_by("actor_id").values_list("actor_id", flat=True).distinct()[:2]
    actors = list(Actor.objects.select_related("agent").filter(id__in=list(owners)))
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
