"""Jobs of the tests: agents are made, which can be counted."""

import threading

from django.db import connection

from memoryhub.jobs.context import JobContext, Writes
from memoryhub.jobs.retries import Postponed
from memoryhub.llm.errors import ProviderRejected, ProviderUnavailable
from memoryhub.tenancy.models import Agent
from tests.ports import free_port

SECRET = "a text that somebody said"


def nothing(job: JobContext) -> None:
    """Do nothing."""


def note(job: JobContext) -> Writes:
    """Make an agent named by the payload."""
    return lambda: Agent.objects.create(agent_id=job.payload["name"])


def steps(job: JobContext) -> None:
    """Make three agents, one a step; break before the one that `breaks_at` names, the first time."""
    for number in range(job.cursor or 0, 3):
        if job.attempt == 1 and number == job.payload.get("breaks_at"):
            raise RuntimeError(SECRET)
        with job.step(cursor=number + 1, done=number + 1, total=3):
            Agent.objects.create(agent_id=f"step-{number}")


def fails(job: JobContext) -> None:
    """Raise what the payload asks for."""
    raise {
        "broken": KeyError(SECRET),
        "refused": ProviderRejected("The provider refused it.", code="refused"),
        "away": ProviderUnavailable("The provider is away.", code="away", retry_after_seconds=90),
        "later": Postponed("Not yet.", seconds=700),
    }[job.payload["how"]]


def loses_database(job: JobContext) -> None:
    """Have no database for as many seconds as the payload says, and break."""
    place = connection.settings_dict
    threading.Timer(job.payload["seconds"], place.update, [{"PORT": place["PORT"]}]).start()
    place["PORT"] = free_port()
    connection.close()
    raise RuntimeError(SECRET)
