"""Options and output that the commands about projects share."""

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
    """Return the actor that the options name, None where they name none; CommandError where there is none such."""
    if options["agent"] is None:
        if options["user"] is not None:
            raise CommandError("--user needs --agent: a user's memory is an agent's memory of that user.")
        return None
    agent = Agent.objects.filter(agent_id=options["agent"]).first()
    if agent is None:
        raise unknown_agent(options["agent"])
    user = agent.fixed_user_id or options["user"] or ""
    found = Actor.objects.select_related("agent").filter(id=actor_id(agent.agent_id, user)).first()
    if found is None:
        raise unknown_user(agent.agent_id, user)
    return found


def only_actor() -> Actor:
    """Return the only actor with projects; CommandError for none or several."""
    owners = Project.objects.order_by("actor_id").values_list("actor_id", flat=True).distinct()[:2]
    found = list(Actor.objects.select_related("agent").filter(id__in=list(owners)))
    if not found:
        raise CommandError("Nobody has a project yet.")
    if len(found) > 1:
        raise CommandError("Several agents or users have projects; say whose with --agent and --user.")
    return found[0]


def print_reports(
    reports: Sequence[FileReport], words: Mapping[FileStatus, str], *, out: OutputWrapper, failure: str
) -> None:
    """Print the result of each file. Raises CommandError where some have problems."""
    for each in reports:
        out.write(f"{each.path}: {words[each.status] if each.status else f'refused: {each.why}'}")
    problems = sum(each.is_problem for each in reports)
    if problems:
        raise CommandError(f"{problems} of {len(reports)} {failure}.")
