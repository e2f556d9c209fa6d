"""Sessions that somebody talks in, and jobs that summarise them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from conversations.actions.messages import add_messages
from conversations.actions.sessions import end_session, open_session
from conversations.domain.messages import NewMessage, Role
from conversations.models import Session
from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.principals import command
from memoryhub.jobs.executor import run
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import Offer, enqueue
from memoryhub.tenancy.models import Actor
from summaries.models import Summary
from tests.fakes.plugin import llm, llm_server

__all__ = ["llm", "llm_server", "talk"]

BY = command("test")
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@dataclass
class Talk:
    """One session of a user."""

    actor: Actor
    session: Session

    def say(self, *texts: str, by: Any = BY, at: datetime | None = None) -> None:
        """Add messages, the user's and the assistant's in turn."""
        roles = (Role.USER, Role.ASSISTANT)
        batch = [NewMessage(role=roles[place % 2], content=text, created_at=at) for place, text in enumerate(texts)]
        for begin in range(0, len(batch), 500):
            add_messages(session=self.session, batch=batch[begin : begin + 500], by=by, now=at or NOW)

    def say_many(self, number: int, *, first: int = 1) -> None:
        """Add so many messages that can be told apart."""
        self.say(*(f"Message m{seq:04}x about the harbour of Otaru." for seq in range(first, first + number)))

    def end(self) -> None:
        """End the session."""
        self.session.refresh_from_db()
        end_session(session=self.session, by=BY, now=datetime.now(UTC))

    def summarize(self, **payload: Any) -> Job:
        """Run a job that looks at the session, as a worker would, and return its row."""
        job_id = enqueue("summarize", actor_id=self.actor.id, payload={"session_id": str(self.session.pk), **payload})
        return ran(job_id)

    def set_policy(self, **values: Any) -> None:
        """Override policy values for the agent."""
        self.actor.agent.policy = values
        self.actor.agent.save()

    @property
    def summary(self) -> Summary | None:
        """The session's summary as it is now."""
        return Summary.objects.filter(session=self.session).select_related("actor__agent", "session").first()


def ran(job_id: UUID) -> Job:
    """Run a job and return its row."""
    run(Offer(job_id, Job.objects.get(pk=job_id).kind), worker=uuid4())
    return Job.objects.get(pk=job_id)


def open_talk(*texts: str, user_id: str = "hiroki", language: str = "en", channel: str = "web", **rest: Any) -> Talk:
    """Open a session of an agent's user, and say something in it."""
    actor = actor_for_writing(BY, "kana", user_id, now=NOW)
    if actor.agent.language != language:
        actor.agent.language = language
        actor.agent.save()
    started = rest.pop("at", datetime.now(UTC) - timedelta(minutes=5))
    session, _ = open_session(actor=actor, session_id=None, channel=channel, by=BY, now=started, **rest)
    talk = Talk(actor, session)
    if texts:
        talk.say(*texts)
    return talk


def seqs_in(texts: Sequence[str]) -> list[int]:
    """Return the numbers of `say_many`'s messages in these texts, in order."""
    return [int(word[1:5]) for text in texts for word in text.split() if word[0] == "m" and word[-1] == "x"]


@pytest.fixture
def talk(db: None) -> Talk:
    """Return a session in which nobody has said anything yet."""
    return open_talk()
