"""Projects as tests of their upkeep make them."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.principals import command
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import enqueue
from memoryhub.tenancy.models import Actor
from summaries.actions.documents import put_document
from summaries.actions.projects import create_project
from summaries.domain.documents import MEMORY
from summaries.models import Document, Project
from tests.integration.summaries.conftest import ran

BY = command("test")
LONG_AGO = datetime(2020, 1, 1, 12, 0, tzinfo=UTC)


def a_project(name: str = "otaru", *, user_id: str = "hiroki", language: str = "en", **policy: Any) -> Project:
    """Return a project of a user, whose agent has this policy."""
    actor = actor_for_writing(BY, "kana", user_id, now=LONG_AGO)
    actor.agent.language, actor.agent.policy = language, policy
    actor.agent.save()
    return create_project(actor=actor, name=name, description="A canal town", by=BY, now=LONG_AGO)


def a_document(project: Project, text: str, name: str = MEMORY, **rest: Any) -> Document:
    """Give a project's document a text."""
    return put_document(project=project, name=name, text=text, by=BY, **{"now": LONG_AGO, **rest})


def text_of(project: Project, name: str = MEMORY) -> str:
    """Return what a document says now; "" where there is none."""
    return Document.objects.filter(project=project, name=name).values_list("text", flat=True).first() or ""


def job_of(kind: str, actor: Actor, **payload: Any) -> UUID:
    """Enqueue a job without a key."""
    return enqueue(kind, actor_id=actor.pk, payload=payload)


def ran_job(kind: str, actor: Actor, **payload: Any) -> Job:
    """Run a job as a worker would, and return its row."""
    return ran(job_of(kind, actor, **payload))
