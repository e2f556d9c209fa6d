"""A trial of summary instructions: the summary of the last messages of a session (SPEC L7)."""

import time
from datetime import datetime

from conversations.actions.instruction_trials import TrialText
from conversations.models import Message, Session
from memoryhub.auth.principals import Principal
from memoryhub.llm.client import call_seconds
from memoryhub.llm.types import Operation
from memoryhub.tenancy.policies import effective_policy
from summaries.actions.summaries import spoken_messages
from summaries.actions.summarizers import DEADLINE_SECONDS, LLMSummarizer, summarize_call
from summaries.domain.policy import SummaryPolicy
from summaries.domain.summaries import next_call


def try_summary(session: Session, instructions: str, by: Principal, now: datetime) -> list[TrialText]:
    """Return a new summary of a session's last messages, as far as one call holds them. Network.

    Raises ProviderError. The session's summary is neither read nor changed.
    """
    actor = session.actor
    policy = effective_policy(SummaryPolicy, actor.agent, actor)
    summarizer = LLMSummarizer(actor, policy, instructions=instructions)
    rows = Message.objects.of([actor.id]).filter(session_id=session.pk).spoken().exclude(content="")
    latest = list(rows.with_tools().order_by("-seq")[: policy.summary_max_messages])[::-1]
    if not latest:
        return []
    call = next_call("", spoken_messages(session, latest), summarizer.limits, summarizer.count)
    ends_at = time.monotonic() + call_seconds(Operation.SUMMARIZE, DEADLINE_SECONDS)
    _, summary = summarize_call(summarizer, call, seconds_left=lambda: ends_at - time.monotonic())
    return [TrialText(summary.text)]
