"""Map exceptions to `application/problem+json` (RFC 9457) with a stable `code` (SPEC H2).

`STATUS` holds the HTTP status of every domain error's code. A view's `problems` overrides the translation of errors.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from django.core.exceptions import ObjectDoesNotExist, RequestDataTooBig
from django.db import IntegrityError, InterfaceError, InternalError, OperationalError
from drf_standardized_errors.formatter import ExceptionFormatter
from drf_standardized_errors.handler import ExceptionHandler
from drf_standardized_errors.types import ErrorResponse
from psycopg import errors as postgres_errors
from rest_framework import exceptions
from rest_framework.response import Response

from memoryhub.api.problems import PROBLEM_JSON, READ_ONLY, Problem, disk_full, payload_too_large, problem, unavailable
from memoryhub.auth.access import UnknownRow
from memoryhub.auth.principals import Forbidden
from memoryhub.db.limits import is_read_only
from memoryhub.db.pool import leave_server
from memoryhub.errors import DomainError
from memoryhub.llm.errors import ProviderError
from memoryhub.llm.usage.spending import SpendCapReached
from memoryhub.search.index import UnusableVector
from memoryhub.tenancy.policy import PolicyError

log = logging.getLogger(__name__)


class ProblemHandler(ExceptionHandler):
    """Exception handler that maps domain errors to problems and sets the media type."""

    def convert_known_exceptions(self, exc: Exception) -> Exception:
        view_problems = getattr(self.context.get("view"), "problems", {})
        for kind, translate in view_problems.items():
            if isinstance(exc, kind):
                translated: Exception = translate(exc)
                return translated
        return problem_for(exc) or super().convert_known_exceptions(exc)

    def report_exception(self, exc: exceptions.APIException, response: Response) -> None:
        if not isinstance(exc, Problem):
            super().report_exception(exc, response)
        elif exc.status_code >= 500:
            log.warning("answered with a problem", extra={"code": exc.get_codes(), "status": exc.status_code})

    def get_response(self, exc: exceptions.APIException, data: Any) -> Response:
        response = super().get_response(exc, data)
        response.content_type = PROBLEM_JSON
        return response


class ProblemFormatter(ExceptionFormatter):
    """Formats as RFC 9457: type, title, status, detail, code, and `errors` per field."""

    def format_error_response(self, error_response: ErrorResponse) -> dict[str, Any]:
        members, status_code = getattr(self.exc, "members", {}), self.exc.status_code
        if not isinstance(self.exc, exceptions.ValidationError):
            first = error_response.errors[0]
            return problem(status_code=status_code, code=str(first.code), detail=first.detail, **members)
        errors = [
            {"field": error.attr or "body", "code": error.code, "detail": error.detail}
            for error in error_response.errors
        ]
        detail = " ".join(f"{error['field']}: {error['detail']}" for error in errors[:5])
        return problem(status_code=status_code, code="invalid", detail=detail, errors=errors, **members)


OUTSIDE_VIEWS: Final = {
    400: ("bad_request", "The request cannot be understood."),
    403: ("permission_denied", "This is not allowed."),
    404: ("not_found", "There is no such call, or no such id. /api/v1/docs lists the calls."),
    500: ("error", "Something went wrong on the server; it has been logged."),
}
"""Code and detail of errors outside the API's views, by HTTP status."""


STATUS: Final[Mapping[str, int]] = {
    "agent_exists": 409,
    "cannot_import": 422,
    "client_message_id_reused": 409,
    "context_too_large": 422,
    "decided_against": 409,
    "document_too_long": 400,
    "duplicate_memory": 409,
    "event_gone": 409,
    "idempotency_in_progress": 409,
    "idempotency_key_reused": 422,
    "invalid_document_name": 400,
    "invalid_project_name": 400,
    "key_cap_reached": 429,
    "user_cap_reached": 429,
    "no_messages": 409,
    "not_repeatable": 409,
    "no_room": 409,
    "no_summaries": 409,
    "not_compacted": 409,
    "owner_cannot_be_erased": 409,
    "not_undoable": 409,
    "nothing_to_move": 409,
    "project_archived": 409,
    "profile_locked": 409,
    "project_exists": 409,
    "session_taken": 409,
    "summary_locked": 409,
    "too_many_actors": 409,
    "too_many_webhooks": 409,
    "version_mismatch": 412,
    "wrong_import_state": 409,
    "wrong_offset": 409,
    "wrong_state": 409,
}
"""The HTTP status of each domain error, by its `code`."""


def problem_for(exc: Exception) -> exceptions.APIException | None:
    """Return the API exception of an error; None where it is unexpected."""
    match exc:
        case UnknownRow():
            return exceptions.NotFound(str(exc.args[0]))
        case Forbidden():
            return exceptions.PermissionDenied(str(exc))
        case DomainError() if exc.code:
            return Problem(STATUS[exc.code], exc.code, str(exc), **exc.members)
        case DomainError() if exc.field:
            return exceptions.ValidationError({exc.field: [str(exc)]})
        case UnusableVector():
            return exceptions.ValidationError({"embedding": [str(exc)]})
        case PolicyError():
            return exceptions.ValidationError({"policy": {key: [str(text)] for key, text in exc.errors.items()}})
        case RequestDataTooBig():
            return payload_too_large()
        case ObjectDoesNotExist():
            return exceptions.NotFound("It was deleted while you wrote.")
        case IntegrityError() if isinstance(exc.__cause__, postgres_errors.ForeignKeyViolation):
            return Problem(409, "deleted_meanwhile", "What this belongs to was deleted meanwhile.")
        case OperationalError() | InterfaceError():
            # Log the code, not the message, which may quote rows: 53100 is a full disk, 53300 too many connections.
            sqlstate = getattr(exc.__cause__, "sqlstate", None)
            log.warning("database unavailable", extra={"error": type(exc).__name__, "sqlstate": sqlstate})
            if sqlstate == postgres_errors.DiskFull.sqlstate:
                return disk_full("The database's disk is full; nothing was written.")
            return unavailable("database_unavailable", "The database is busy or away; try again shortly.")
        case InternalError() if is_read_only(exc):
            leave_server()
            return unavailable("database_read_only", READ_ONLY)
        case ProviderError():
            return unavailable("provider_unavailable", str(exc))
    return None


def is_model_missing(error: ProviderError) -> bool:
    return isinstance(error, SpendCapReached) or error.code == "not_configured"


def llm_problem(error: ProviderError, *, wait_seconds: int | None, **members: Any) -> Problem:
    """Return 503 where no model is configured or the spending cap is reached, 502 where the model failed."""
    status_code, code = (503, "llm_unavailable") if is_model_missing(error) else (502, "llm_failed")
    members = {"reason": error.code, "retryable": not error.permanent, **members}
    return Problem(status_code, code, str(error), wait_seconds=wait_seconds, **members)
