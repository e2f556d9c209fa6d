"""Exceptions of the client: what the API answered (`application/problem+json`), or that no answer came."""

import json
from collections.abc import Mapping
from typing import Any


class MemoryhubError(Exception):
    """Base of all errors of this client. `retryable`: the same call may succeed later."""

    retryable = False


class NotReached(MemoryhubError):
    """The server could not be reached, and has not seen the call."""

    retryable = True


class AnswerLost(MemoryhubError):
    """The connection broke after the call was sent; the server may have carried it out.

    `retryable` is false for a conditional change (`if_match`): read the row to learn what became of it.
    """

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable


class ApiError(MemoryhubError):
    """The API refused a call. `code` is stable; `errors` names the fields; `members` are the problem's others."""

    def __init__(self, status: int, problem: Mapping[str, Any], *, retry_after_seconds: float | None) -> None:
        self.status = status
        self.code = str(problem.get("code", "unknown"))
        self.detail = str(problem.get("detail", ""))
        self.errors: list[dict[str, str]] = problem.get("errors") or []
        self.members = {key: value for key, value in problem.items() if key not in _STANDARD}
        self.retry_after_seconds = retry_after_seconds
        waits = status in (429, 502, 503, 504, 507) or self.code == IN_PROGRESS
        self.retryable = bool(problem.get("retryable", waits))
        super().__init__(f"{status} {self.code}: {self.detail}")


class InvalidRequest(ApiError):
    """400, 413 or 422: the request must be changed."""


class AuthenticationFailed(ApiError):
    """401: no key, or a key that is not valid."""


class Forbidden(ApiError):
    """403: the key lacks a scope, or may not touch this agent or user."""


class NotFound(ApiError):
    """404: there is no such row, or the key may not see it."""


class Conflict(ApiError):
    """409: the state of the row does not allow it; `code` says why."""


class VersionMismatch(ApiError):
    """412: the row has changed since the ETag in `if_match` was read."""


class RateLimited(ApiError):
    """429: too many calls with this key."""


class ServerError(ApiError):
    """5xx: the server, its database or its model failed."""


class StorageFull(ServerError):
    """507: the server's disk is nearly full; it writes again once there is room. Reads go on.

    `retryable`, but not repeated by the client: making room takes a person.
    """


IN_PROGRESS = "idempotency_in_progress"
_STANDARD = {"type", "title", "status", "detail", "code", "errors"}
_BY_STATUS: Mapping[int, type[ApiError]] = {
    400: InvalidRequest, 401: AuthenticationFailed, 403: Forbidden, 404: NotFound, 409: Conflict,
    412: VersionMismatch, 413: InvalidRequest, 422: InvalidRequest, 429: RateLimited,
    507: StorageFull,
}  # fmt: skip


def problem_in(body: bytes) -> dict[str, Any]:
    """Return the problem in an answer's body; empty where a proxy answered something else."""
    try:
        problem = json.loads(body)
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}


def error_for(status: int, problem: Mapping[str, Any], *, retry_after_seconds: float | None) -> ApiError:
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
    return kind(status, problem, retry_after_seconds=retry_after_seconds)
