"""Tells the demo's story through the same actions that the API and the admin use, one moment after the other.

It writes no row itself: whatever the demo shows, a client or a curator could have made. Everything but the
contexts is one transaction, so that a telling that was cut short has never happened; the contexts come after
the commit, because a remote embedder is asked for them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import transaction

from conversations.actions.context import ContextRequest, assemble_context
from conversations.actions.messages import add_messages
from conversations.actions.sessions import end_session, open_session
from conversations.domain.messages import NewMessage, Role
from conversations.models import Message, Session
from memoryhub.auth.actions import create_agent
from memoryhub.auth.domain import Principal
from memoryhub.auth.tenancy import actor_for_writing, tenant_for_reading
from memoryhub.demo.story import (
    AGENTS,
    ASKED,
    CURATED,
    MINDS,
    TALKS,
    Ago,
    Asked,
    Curated,
    Mind,
    Remembered,
    Talk,
    Use,
)
from memoryhub.tenancy.models import Agent
from strength.actions.curation import apply_transition, edit_memory, restore_revision
from strength.actions.memories import NewMemory, write_memory
from strength.actions.usage import use_memories
from strength.models import Memory, MemoryRevision

SESSION_PLACEHOLDER = "{sessionId}"

Moment = tuple[datetime, Callable[[], None]]


def tell(now: datetime, by: Principal) -> None:
    """Write the demo's agents, sessions, memories and contexts, ending at `now`; nothing where an agent is there."""
    if Agent.objects.filter(agent_id__in=AGENTS).exists():
        return
    telling = Telling(now=now, by=by)
    with transaction.atomic():
        telling.create_agents()
        for _, happen in sorted(telling.moments(), key=lambda moment: moment[0]):
            happen()
    for asked in ASKED:
        telling.ask(asked)


@dataclass
class Telling:
    """What has been told so far: the story's keys and the rows they became."""

    now: datetime
    by: Principal
    sessions: dict[str, Session] = field(default_factory=dict)
    messages: dict[str, list[Message]] = field(default_factory=dict)
    memories: dict[str, Memory] = field(default_factory=dict)

    def at(self, ago: Ago) -> datetime:
        """Return a time of the story."""
        return self.now - timedelta(days=ago.days)

    def create_agents(self) -> None:
        """Create the agents, before anything else happens."""
        first = max(talk.began.days for talk in TALKS) + 1
        for agent_id, values in AGENTS.items():
            create_agent(agent_id=agent_id, values=values, by=self.by, now=self.at(Ago(first)))

    def moments(self) -> Iterator[Moment]:
        """Yield all that happens, with its time, in no order."""
        for talk in TALKS:
            yield self.at(talk.began), partial(self.talk, talk)
        for mind in MINDS:
            for remembered in mind.memories:
                yield self.at(remembered.at), partial(self.remember, mind, remembered)
                for use in remembered.uses:
                    yield self.at(use.at), partial(self.use, remembered, use)
        for curated in CURATED:
            yield self.at(curated.at), partial(self.curate, curated)

    def talk(self, talk: Talk) -> None:
        """Hold a session: open it, say every turn, and end it if it ended."""
        began = self.at(talk.began)
        actor = actor_for_writing(self.by, talk.agent, talk.user, now=began)
        session, _ = open_session(
            actor=actor, session_id=None, channel=talk.channel, title=talk.title, by=self.by, now=began
        )
        turn_times = [
            began + timedelta(minutes=talk.minutes_between_turns) * place for place in range(len(talk.turns))
        ]
        batch = [
            NewMessage(role=_role(talk, speaker), author=speaker, content=words, created_at=time)
            for (speaker, words), time in zip(talk.turns, turn_times, strict=True)
        ]
        added = add_messages(session=session, batch=batch, by=self.by, now=turn_times[-1])
        if talk.ended:
            end_session(session=session, by=self.by, now=turn_times[-1] + timedelta(minutes=30))
        self.sessions[talk.key], self.messages[talk.key] = session, added.messages

    def remember(self, mind: Mind, remembered: Remembered) -> None:
        """Write a memory with its provenance."""
        written_at = self.at(remembered.at)
        actor = actor_for_writing(self.by, mind.agent, mind.user, now=written_at)
        new = NewMemory(
            content=remembered.text,
            kind=remembered.kind,
            namespace=self._namespace(remembered),
            tags=remembered.tags,
            scope_level=remembered.scope_level,
            scope_project=remembered.scope_project,
            source=remembered.source,
            strength=remembered.strength,
            strength_by_perspective=remembered.strength_by_perspective,
            learnings=remembered.learnings,
            source_message_ids=[self.messages[talk][seq - 1].id for talk, seq in remembered.sources],
            channel=remembered.channel,
            confidence=remembered.confidence,
            valid_from=self._resolved(remembered.valid_from),
        )
        self.memories[remembered.key], _ = write_memory(actor=actor, new=new, by=self.by, now=written_at)

    def use(self, remembered: Remembered, use: Use) -> None:
        """Strengthen a memory that was used."""
        use_memories(
            memories=[self.memories[remembered.key]],
            perspective=use.perspective,
            task=None,
            by=self.by,
            now=self.at(use.at),
        )

    def curate(self, curated: Curated) -> None:
        """Do what a curator decided, with the reason."""
        memory = self.memories[curated.memory]
        given: dict[str, Any] = {"by": self.by, "reason": curated.reason, "now": self.at(curated.at)}
        if curated.verb == "edit":
            values = {name: self._resolved(value) for name, value in curated.values.items()}
            memory = edit_memory(memory=memory, values=values, expected_version=None, **given)
        elif curated.revision is not None:
            revision = MemoryRevision.objects.get(
                actor_id=memory.actor_id, memory=memory, number=curated.revision
            )
            memory = restore_revision(memory=memory, revision=revision, expected_version=None, **given)
        else:
            memory = apply_transition(memory=memory, verb=curated.verb, **given)
        self.memories[curated.memory] = memory

    def ask(self, asked: Asked) -> None:
        """Assemble a context, which leaves a receipt."""
        assemble_context(
            tenant=tenant_for_reading(self.by, asked.agent, asked.user),
            request=ContextRequest(
                message=asked.message,
                session=self.sessions[asked.talk] if asked.talk else None,
                perspective=asked.perspective,
                options=asked.options,
            ),
            by=self.by,
            now=self.at(asked.at),
        )

    def _namespace(self, remembered: Remembered) -> str | None:
        if remembered.namespace is None or SESSION_PLACEHOLDER not in remembered.namespace:
            return remembered.namespace
        session = self.sessions[remembered.sources[0][0]]
        return remembered.namespace.replace(SESSION_PLACEHOLDER, str(session.pk))

    def _resolved(self, value: Any) -> Any:
        return self.at(value) if isinstance(value, Ago) else value


def _role(talk: Talk, speaker: str) -> Role:
    if speaker == Role.TOOL:
        return Role.TOOL
    return Role.ASSISTANT if speaker == talk.agent else Role.USER
