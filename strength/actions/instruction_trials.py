"""A trial of extraction instructions: what the last messages of a session would give (SPEC L7)."""

from datetime import datetime
from typing import Final

from conversations.actions.instruction_trials import TrialText
from conversations.models import Message, Session
from memoryhub.auth.principals import Principal
from memoryhub.llm.client import counter_in_use
from memoryhub.llm.types import Operation
from strength.actions.extraction import ExtractionRun, extract_items, source_messages
from strength.domain.extraction import MESSAGE_STRATEGIES, Span, enabled_strategies, next_slice

TRIED_MESSAGES: Final = 30


def try_extraction(session: Session, instructions: str, by: Principal, now: datetime) -> list[TrialText]:
    """Return the statements that a model draws from a session's last messages, as far as one call holds them. Network.

    Raises ProviderError. Strategies that are disabled draw nothing.
    """
    actor = session.actor
    run = ExtractionRun(actor, by, now, instructions=instructions)
    enabled = enabled_strategies(actor.agent.strategies)
    rows = Message.objects.of([actor.id]).spoken().filter(session_id=session.pk).with_tools().order_by("-seq")
    messages = source_messages(list(rows[:TRIED_MESSAGES])[::-1], actor)
    strategies = tuple(strategy for strategy in MESSAGE_STRATEGIES if strategy in enabled)
    if not messages or not strategies:
        return []
    count = counter_in_use(Operation.EXTRACT).count
    piece = next_slice(messages, max_tokens=run.max_tokens, count=count, until=messages[-1].seq)
    span = Span(strategies, messages[0].seq - 1, piece.until)
    return [TrialText(each.content, each.doubt) for each in extract_items(run, session, span, piece)]
