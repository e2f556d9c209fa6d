"""Import the models of this app's packages, so that Django finds them."""

from memoryhub.api.idempotency import IdempotencyRecord
from memoryhub.auth.models import (
    AgentLimit,
    ApiKey,
    AuditEntry,
    CallSum,
    Invitation,
    OAuthClient,
    OAuthGrant,
    OAuthToken,
)
from memoryhub.db.positions import Position
from memoryhub.db.shared_cache import SharedValue
from memoryhub.importexport.foreign.models import Import, ImportedRow, UploadedPiece
from memoryhub.jobs.models import Job, ScheduleState, Worker
from memoryhub.llm.usage.models import CapReached, LedgerEntry, TokenFactors
from memoryhub.search.models import ClusteringState, EmbeddingSpace, TermStatistic
from memoryhub.tenancy.models import Actor, Agent
