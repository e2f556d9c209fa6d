"""Estimate what the extraction of imported conversations costs: calls, tokens and dollars (SPEC M12)."""

from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db.models import Avg

from memoryhub.importexport.foreign.imports import Cost
from memoryhub.llm.client import llm_provider
from memoryhub.llm.errors import ProviderError
from memoryhub.llm.types import Operation
from memoryhub.llm.usage.caps import OK
from memoryhub.llm.usage.models import LedgerEntry
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy
from strength.domain.extraction import enabled_strategies
from strength.domain.policy import ExtractionPolicy

MEASURED: Final = timedelta(days=30)
OUTPUT_TOKENS: Final = 300
"""Of a call, where the agent has made none lately."""

INSTRUCTION_TOKENS: Final = 1_000
"""Of a call, at most: the prompt `extract` with its rules."""

EARLIER_SHARE: Final = 4
"""Preceding messages take up to this part of a call's size (policy `extraction_max_tokens`)."""


def extraction_cost(*, actor: Actor, sessions: int, tokens: int, now: datetime) -> Cost | None:
    """Return the most that reading so many sessions takes; None without a model, or without a strategy.

    The length of an answer is that of the agent's calls of the last days. Later calls of a session repeat preceding
    messages.
    """
    try:
        model = llm_provider().model_for(Operation.EXTRACT)
    except ProviderError:
        return None
    if not model or not sessions or not enabled_strategies(actor.agent.strategies):
        return None
    size = effective_policy(ExtractionPolicy, actor.agent, actor).extraction_max_tokens
    calls = sessions + tokens // size
    entries = LedgerEntry.objects.filter(agent_id=actor.agent_id, created_at__gt=now - MEASURED, outcome=OK)
    measured = entries.filter(operation=Operation.EXTRACT, model=model).aggregate(size=Avg("output_tokens"))["size"]
    input_tokens = tokens + calls * INSTRUCTION_TOKENS + (calls - sessions) * size // EARLIER_SHARE
    output_tokens = calls * round(measured or OUTPUT_TOKENS)
    dollars = settings.PRICES.cost(model, input_tokens=input_tokens, output_tokens=output_tokens)
    return Cost(model, calls, input_tokens, output_tokens, dollars)
