"""Calls as values, and when to repeat them. Sending is left to the clients; nothing here waits or does I/O."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote
from uuid import uuid4

import httpx2

from memoryhub_client.errors import IN_PROGRESS, AnswerLost, NotReached, error_for, problem_in

Result = TypeVar("Result")
USER_AGENT = "memoryhub-client/0.1.0"
UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


def path(*segments: str) -> str:
    """Return a path under /api/v1. Raises ValueError for a segment that would name another place."""
    for segment in segments:
        if segment in ("", ".", ".."):
            raise ValueError(f"{segment!r} is no id or name.")
    return "/api/v1/" + "/".join(quote(segment, safe="") for segment in segments)


@dataclass(frozen=True)
class Call(Generic[Result]):
    """One call of the API.

    `tenant` says where `agent_id` and `user_id` go, also those among the body's values; the client's own are filled in
    where they are missing. With `idempotency_key` among the values of a POST it is sent instead of a generated one.
    """

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    tenant: Literal["query", "body"] | None = None
    conditions: Mapping[str, str | None] = field(default_factory=dict)

    def prepared(self, *, agent_id: str | None, user_id: str | None) -> "Prepared":
        query = {name: value for name, value in self.query.items() if value is not None}
        body = dict(self.body or {})
        key = body.pop("idempotency_key", None) or query.pop("idempotency_key", None)
        whose = query if self.tenant == "query" else body if self.tenant == "body" else {}
        for name, value in (("agent_id", agent_id), ("user_id", user_id)):
            if self.tenant == "query" and (named := body.pop(name, None)) is not None:
                query[name] = named
            if value is not None and not (name == "user_id" and body.get("all_users")):
                whose.setdefault(name, value)
        headers = {name: value for name, value in self.conditions.items() if value is not None}
        is_repeatable = not headers
        if self.method == "POST":
            headers["Idempotency-Key"] = key or str(uuid4())
        content = None
        if self.body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps({name.rstrip("_"): value for name, value in body.items()}).encode()
        params = {name.rstrip("_"): _as_texts(value) for name, value in query.items()}
        return Prepared(self.method, self.path, params, headers, content, is_repeatable)


@dataclass(frozen=True)
class Prepared:
    """A call as it is sent, the same at every repeat."""

    method: str
    path: str
    params: Mapping[str, str | list[str]]
    headers: Mapping[str, str]
    content: bytes | None
    is_repeatable: bool

    def next_page(self, page: Mapping[str, Any]) -> "Prepared | None":
        """Return the call of the page after this one; None after the last.

        Only the cursor is taken: the address is as the server sees itself, which a proxy may have changed.
        """
        if not page["next"]:
            return None
        return replace(self, params={**self.params, "cursor": httpx2.URL(page["next"]).params["cursor"]})

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `build_request`."""
        return {
            "method": self.method,
            "url": self.path,
            "params": self.params or None,
            "headers": self.headers,
            "content": self.content,
        }


def _as_texts(value: Any) -> str | list[str]:
    """Return a value of a query; a parameter is repeated for each of a list's."""
    return [_as_text(each) for each in value] if isinstance(value, list | tuple) else _as_text(value)


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class RetryPolicy:
    """Number of repeats of a call, and the delays before them.

    A server's `Retry-After` is honoured up to `longest_wait_seconds`; if it asks for more, the error is raised.
    """

    attempts: int = 5
    first_wait_seconds: float = 0.5
    longest_wait_seconds: float = 30.0


class Attempts:
    """The attempts at one call: decides after each outcome whether another follows.

    Repeated are reads, writes with an Idempotency-Key, and changes without a condition. A conditional change whose
    answer was lost is not: its repeat would be refused by its own first success.
    """

    def __init__(self, call: Prepared, policy: RetryPolicy) -> None:
        self._call = call
        self._policy = policy
        self._made = 0
        self._may_have_happened = False

    def wait_after_failure(self, failure: httpx2.TransportError) -> float:
        """Return the seconds to wait before the next attempt. Raises NotReached or AnswerLost where none follows."""
        self._made += 1
        is_unsent = isinstance(failure, UNSENT)
        self._may_have_happened |= not is_unsent
        if (is_unsent or self._call.is_repeatable) and self._made < self._policy.attempts:
            return self._pause()
        text = f"{self._call.method} {self._call.path}: {type(failure).__name__}: {failure}"
        if not self._may_have_happened:
            raise NotReached(text) from failure
        raise AnswerLost(text, retryable=self._call.is_repeatable) from failure

    def wait_after_answer(self, response: httpx2.Response) -> float | None:
        """Return the seconds to wait before the next attempt; None for an answer to keep. Raises ApiError."""
        if response.is_success:
            return None
        self._made += 1
        if response.status_code == 404 and self._call.method == "DELETE" and self._may_have_happened:
            return None  # the attempt whose answer was lost has deleted it
        problem, asked = problem_in(response.content), retry_after_seconds(response.headers)
        # A gateway's 502 or 504 has no problem: as with a broken connection, the server may have acted.
        is_gateway = response.status_code in (502, 503, 504) and not problem
        self._may_have_happened |= is_gateway
        waits = response.status_code == 429 or problem.get("code") == IN_PROGRESS
        waits |= response.status_code == 503 and asked is not None and problem.get("retryable", True)
        waits |= is_gateway and self._call.is_repeatable
        pause = self._pause() if asked is None else asked
        if waits and self._made < self._policy.attempts and pause <= self._policy.longest_wait_seconds:
            return pause
        raise error_for(response.status_code, problem, retry_after_seconds=asked)

    def _pause(self) -> float:
        pause: float = self._policy.first_wait_seconds * 2 ** (self._made - 1)
        spread = random.uniform(0.5, 1)  # noqa: S311  (protects nothing)
        return min(pause, self._policy.longest_wait_seconds) * spread


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return `Retry-After` (RFC 9110, 10.2.3), a number of seconds or a date; None where it is missing or neither."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def result_of(response: httpx2.Response) -> Any:
    """Return an answer's body: an object with its `etag`, a text, or None."""
    kind = response.headers.get("Content-Type", "").partition(";")[0]
    if response.status_code in (204, 404):  # 404: deleted already, by an attempt whose answer was lost
        return None
    if kind != "application/json":
        return response.text
    body = response.json()
    if isinstance(body, dict) and "ETag" in response.headers:
        body["etag"] = response.headers["ETag"]
    return body


@dataclass
class ExportLines:
    """Lines of an export; one that did not come to its end is an error, not a short export."""

    has_ended: bool = False

    def parsed(self, line: str) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(line)
        self.has_ended = "end" in record
        return record

    def check_over(self) -> None:
        if not self.has_ended:
            raise AnswerLost("The export broke off before its last line.", retryable=True)


class StreamedAnswer:
    """The events of a streamed chat, over all attempts at it.

    A repeat is answered with the whole text again; what was already given on is left out.
    """

    def __init__(self) -> None:
        self._given = ""
        self._again = ""
        self._has_begun = False
        self.is_over = False

    def begin(self) -> None:
        self._again = ""

    def taken(self, event: str, data: Any) -> Sequence[tuple[str, Any]]:
        """Return the events to give on for one that came. Raises ApiError, AnswerLost."""
        if event == "delta":
            self._again += data["text"]
            fresh = self._again[len(self._given) :]
            self._check(self._again[: len(self._given)] == self._given[: len(self._again)])
            self._given += fresh
            return [("delta", {"text": fresh})] if fresh else []
        if event == "session":
            has_begun, self._has_begun = self._has_begun, True
            return [] if has_begun else [(event, data)]
        self.is_over = event in ("done", "error")
        if event == "error":
            raise error_for(int(data.get("status", 500)), data, retry_after_seconds=None)
        self._check(self._again == self._given)
        return [(event, data)]

    def check_over(self) -> None:
        """Raise RemoteProtocolError where the stream ended before its last event."""
        if not self.is_over:
            raise httpx2.RemoteProtocolError("The stream ended before its last event.")

    @staticmethod
    def _check(is_same_text: bool) -> None:
        if not is_same_text:
            raise AnswerLost("The answer was begun anew, in other words.", retryable=False)
