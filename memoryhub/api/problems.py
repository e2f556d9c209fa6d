"""Problems as values (RFC 9457): raised anywhere in the API, formatted in `errors`.

Apart from `errors` because DRF imports the default parsers, which raise these, while it is loading.
"""

import json
from typing import Any, Final

from django.conf import settings
from django.http import HttpResponse, JsonResponse
from rest_framework import exceptions

from memoryhub.db.pool import WAITING_PER_TURN

PROBLEM_JSON = "application/problem+json"


class Problem(exceptions.APIException):
    """API error with status, stable code, and additional members; `wait_seconds` becomes `Retry-After`."""

    def __init__(
        self, status_code: int, code: str, detail: str, *, wait_seconds: int | None = None, **members: Any
    ) -> None:
        super().__init__(detail=detail, code=code)
        self.status_code, self.members = status_code, members
        if wait_seconds is not None:
            self.wait = wait_seconds


def payload_too_large() -> Problem:
    return Problem(413, "payload_too_large", "The body is too large; send it in smaller parts.")


def disk_full(detail: str) -> Problem:
    return Problem(507, "disk_full", detail, wait_seconds=30)


READ_ONLY: Final = "The database takes no writes at the moment; reads that write nothing work. Try again shortly."


def unavailable(code: str, detail: str) -> Problem:
    return Problem(503, code, detail, wait_seconds=2)


def too_many_requests() -> tuple[str, str]:
    """Return code and detail of the answer to a caller with the maximum number of waiting requests."""
    each = settings.ENVIRONMENT.requests_per_key
    return "too_many_requests", (
        f"{each} requests of this key run (MEMORYHUB_REQUESTS_PER_KEY), and {WAITING_PER_TURN * each} wait for them; "
        "try again shortly."
    )


def problem(
    *, status_code: int, code: str, detail: str, errors: list[dict[str, str]] | None = None, **members: Any
) -> dict[str, Any]:
    return {
        "type": f"urn:memoryhub:problem:{code}",
        "title": code.replace("_", " ").capitalize().replace("Llm", "LLM"),
        "status": status_code,
        "detail": detail,
        "code": code,
        "errors": errors or [],
        **members,
    }


async def send_problem(send: Any, status_code: int, code: str, detail: str, *headers: tuple[bytes, bytes]) -> None:
    """Answer with a problem through ASGI, where neither Django nor DRF is asked."""
    body = json.dumps(problem(status_code=status_code, code=code, detail=detail)).encode()
    own = [(b"content-type", PROBLEM_JSON.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status_code, "headers": [*own, *headers]})
    await send({"type": "http.response.body", "body": body})


def plain_problem(
    status_code: int, code: str, detail: str, *, retry_after_seconds: int | None = None, **members: Any
) -> HttpResponse:
    """Build a problem as a Django response, for errors outside DRF's views; `members` are added to it."""
    body = {**problem(status_code=status_code, code=code, detail=detail), **members}
    response = JsonResponse(body, status=status_code, content_type=PROBLEM_JSON)
    if retry_after_seconds is not None:
        response["Retry-After"] = str(retry_after_seconds)
    return response
