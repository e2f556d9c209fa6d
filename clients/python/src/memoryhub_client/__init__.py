"""Client of memoryhub, a self-hosted memory for LLM agents."""

from memoryhub_client.client import AsyncMemoryhub, ChatEvent, Memoryhub
from memoryhub_client.errors import (
    AnswerLost,
    ApiError,
    AuthenticationFailed,
    Conflict,
    Forbidden,
    InvalidRequest,
    MemoryhubError,
    NotFound,
    NotReached,
    RateLimited,
    ServerError,
    StorageFull,
    VersionMismatch,
)
from memoryhub_client.transport import RetryPolicy

__all__ = [
    "AnswerLost", "ApiError", "AsyncMemoryhub", "AuthenticationFailed", "ChatEvent", "Conflict", "Forbidden",
    "InvalidRequest", "Memoryhub", "MemoryhubError", "NotFound", "NotReached", "RateLimited", "RetryPolicy",
    "ServerError", "StorageFull", "VersionMismatch",
]  # fmt: skip
