"""Gathers the ground's models, which live in the rooms they belong to."""

from memoryhub.api.models import IdempotencyRecord
from memoryhub.auth.models import ApiKey, AuditEntry
from memoryhub.jobs.models import Job, ScheduleState, Worker
from memoryhub.llm.usage.models import LedgerEntry, TokenFactors
from memoryhub.search.models import EmbeddingSpace, TermStatistic
from memoryhub.tenancy.models import Actor, Agent

__all__ = [
    "Actor",
    "Agent",
    "ApiKey",
    "AuditEntry",
    "EmbeddingSpace",
    "IdempotencyRecord",
    "Job",
    "LedgerEntry",
    "ScheduleState",
    "TermStatistic",
    "TokenFactors",
    "Worker",
]  # fmt: skip
