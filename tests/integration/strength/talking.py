"""A conversation that is extracted from: what was said, what the model will answer, and the job that reads it."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from conversations.actions.messages import add_messages
from conversations.actions.sessions import open_session
from conversations.domain.messages import NewMessage, Role
from conversations.models import Message, Session
from memoryhub.auth.principals import background
from memoryhub.tenancy.models import Actor
from strength.actions.contradictions import Outcome
from strength.actions.extraction import ExtractionRun, extract
from strength.models import Memory
from tests.fakes.llm_server import Asked, LLMServer, Reply
from tests.integration.strength.conftest import BY, NOW

JOB = background("extract", uuid4())
SURE = 0.95
OWN = "own_statement"


def talk(
    actor: Actor,
    *said: str | tuple[str, str],
    session: Session | None = None,
    channel: str = "web",
    at: datetime = NOW,
    by: Any = BY,
) -> Session:
    """Store what was said, by the user where nobody else is named, one minute apart."""
    session = session or open_session(actor=actor, session_id=None, channel=channel, by=by, now=at)[0]
    batch = []
    for number, each in enumerate(said):
        role, content = each if isinstance(each, tuple) else ("user", each)
        batch.append(NewMessage(role=Role(role), content=content, created_at=at + timedelta(minutes=number)))
    add_messages(session=session, batch=batch, by=by, now=at)
    session.refresh_from_db()
    return session


def read(actor: Actor, *, now: datetime = NOW + timedelta(hours=1), **options: Any) -> Counter[Outcome]:
    """Let an actor's conversations be read, as the job does."""
    fresh = Actor.objects.select_related("agent").get(pk=actor.pk)
    spoilt = options.pop("bad_attempts", 0)
    return extract(run=ExtractionRun(fresh, JOB, now, spoilt), **options)


def item(text: str, *sources: int, confidence: float = SURE, **more: Any) -> dict[str, Any]:
    return {"text": text, "sources": list(sources or (1,)), "confidence": confidence, "speech": OWN, **more}


def episode(*sources: int, confidence: float = SURE, **parts: str) -> dict[str, Any]:
    return {**parts, "sources": list(sources or (1,)), "confidence": confidence, "speech": OWN}


def pair(new: int, known: int, verdict: str) -> dict[str, Any]:
    return {"new": new, "known": known, "verdict": verdict}


def lists_of(asked: Asked) -> set[str]:
    """Return the names of the lists that an answer must have: they tell what was asked."""
    return set(asked.schema["properties"]) if asked.schema else set()


def is_judgement(asked: Asked) -> bool:
    return "pairs" in lists_of(asked)


def numbered(asked: Asked, heading: str) -> dict[str, int]:
    """Return the statements under a heading of a judgement, with their numbers."""
    block = re.search(rf"<{heading} \w+>\n(.*?)\n</{heading} ", asked.text, re.DOTALL)
    lines = block.group(1).splitlines() if block else []
    return {line.partition(". ")[2]: int(line.partition(". ")[0]) for line in lines}


def messages_shown(asked: Asked) -> list[str]:
    """Return the numbered messages that a model was shown."""
    return re.findall(r"^\[\d+\] .*$", asked.text, re.MULTILINE)


@dataclass
class Model:
    """A model that draws what the test says from messages, and judges pairs as the test says; silent without any."""

    server: LLMServer
    drawn: Callable[[Asked], Mapping[str, Sequence[Any]]] | Mapping[str, Sequence[Any]]
    judged: Mapping[tuple[str, str], str] | None = None
    lessons: Sequence[Mapping[str, Any]] = ()

    def __post_init__(self) -> None:
        self.server.answer(self.reply)

    def reply(self, asked: Asked) -> Reply:
        wanted = lists_of(asked)
        if not wanted:
            return Reply("They talked.")
        if is_judgement(asked):
            return Reply(data={"pairs": self._pairs(asked), "compared": self._compared(asked)})
        if wanted == {"lessons"}:
            return Reply(data={"lessons": list(self.lessons)})
        drawn = self.drawn(asked) if callable(self.drawn) else self.drawn
        return Reply(data={name: list(drawn.get(name, [])) for name in wanted})

    def _compared(self, asked: Asked) -> list[int]:
        new = {**numbered(asked, "new"), **numbered(asked, "新規")}
        return [] if self.judged is None else list(new.values())

    def _pairs(self, asked: Asked) -> list[dict[str, Any]]:
        known = {**numbered(asked, "known"), **numbered(asked, "既知")}
        new = {**numbered(asked, "new"), **numbered(asked, "新規")}
        return [
            pair(new[one], known[other], verdict)
            for (one, other), verdict in (self.judged or {}).items()
            if one in new and other in known
        ]

    def asked_for(self, name: str) -> list[Asked]:
        """Return the questions whose answer has a list of this name."""
        return [asked for asked in self.server.asked if name in lists_of(asked)]


def texts(actor: Actor, **filters: Any) -> list[str]:
    """Return the actor's active memories that hold, the oldest first."""
    rows = Memory.objects.of([actor.id]).active().filter(valid_to=None, **filters)
    return list(rows.order_by("created_at", "id").values_list("content", flat=True))


def sources_of(memory: Memory) -> set[str]:
    keys = memory.sources.values_list("message_id", flat=True)
    return set(Message.objects.filter(pk__in=list(keys)).values_list("content", flat=True))
