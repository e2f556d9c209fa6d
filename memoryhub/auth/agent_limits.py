"""People who are limited to some agents: their limits, and the requests in which these apply (SPEC O12, ADR 70)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from psycopg.errors import InsufficientPrivilege

from memoryhub.auth import audit
from memoryhub.auth.models import AgentLimit, agents_of
from memoryhub.auth.principals import Principal
from memoryhub.auth.row_security import remedy
from memoryhub.db import reach
from memoryhub.errors import DomainError

EVERY_AGENT: Final = "*"
API: Final = "/api/"
"""Calls there act as a key, not as the person who is logged in."""

OWN_PAGES: Final = frozenset(
    {
        *("login", "logout", "login_page", "oidc_begin", "oidc_callback", "second_step", "invitation"),
        *("own_password", "own_sessions", "own_sign_in", "time_zone", "password_change", "password_change_done"),
    }
)
"""Pages about nothing but a person's own account; they use tables that are closed to limited people."""

WITHOUT_COUNTS: Final = "without_counts"
"""Attribute of a limited person's requests for these pages; their frame must not count the rows of all agents."""

CLOSED: Final = _("You are limited to some agents, and this page is about all of them.")
UNPREPARED: Final = _(
    "The database is not prepared to limit people to some agents. `manage.py doctor` says what an administrator has to "
    "do."
)


class Unprepared(DomainError):
    """The database cannot limit anyone."""


def check_prepared() -> None:
    """Raise Unprepared where the database lacks a policy or the role."""
    if remedy():
        raise Unprepared(UNPREPARED)


@contextmanager
def limits_of(person: Any) -> Iterator[None]:
    """Run the block, outside a request, in the limits of a person. Raises Unprepared."""
    agent_ids = agents_of(person)
    if agent_ids is not None:
        check_prepared()
    with reach.limited_to(agent_ids):
        yield


class LimitToAgents:
    """Middleware: run the pages of a limited person in their limits. The innermost one, as others use closed tables."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        with reach.limited_to(None):
            response = self.get_response(request)
            if isinstance(response, StreamingHttpResponse) and reach.agents() is not None:
                pieces: Any = response.streaming_content
                response.streaming_content = (
                    reach.LimitedAsyncPieces(pieces) if response.is_async else reach.LimitedPieces(pieces)
                )
        return response

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        match = request.resolver_match
        person: Any = getattr(request, "user", None)
        if request.path.startswith(API) or match is None or person is None or not person.is_authenticated:
            return None
        agent_ids = agents_of(person)
        if agent_ids is None:
            return None
        if match.url_name in OWN_PAGES:
            vars(request)[WITHOUT_COUNTS] = True
            return None
        try:
            check_prepared()
        except Unprepared as error:
            return _refusal(request, str(error))
        reach.limit(agent_ids)
        return None

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Answer a page that needs a table which is closed to limited people, or a row of another agent."""
        if reach.agents() is None or not isinstance(error.__cause__, InsufficientPrivilege):
            return None
        return _refusal(request, CLOSED)


def _refusal(request: HttpRequest, sentence: Any) -> HttpResponse:
    context = {"sentence": sentence, "is_of_admin": True, "csp_nonce": getattr(request, "csp_nonce", "")}
    return render(request, "403_limited.html", context, status=403)


def agents_by_groups(agents: Mapping[str, Iterable[str]], groups: Iterable[str]) -> frozenset[str] | None:
    """Return the agents of a person with these groups of the provider; None: all."""
    found = frozenset(agent_id for group in groups for agent_id in agents.get(group, ()))
    return None if EVERY_AGENT in found else found


def set_limit(
    person: User, agent_ids: frozenset[str] | None, *, source: AgentLimit.Source, by: Principal, now: datetime
) -> None:
    """Limit a person to some agents; None: to none of them. What a provider set, its absence takes back."""
    former = AgentLimit.objects.filter(person=person).first()
    if agent_ids is None:
        if former is None or (source is AgentLimit.Source.PROVIDER and former.source != source):
            return
        former.delete()
    elif former is not None and (former.source, frozenset(former.agent_ids)) == (source, agent_ids):
        return
    else:
        AgentLimit.objects.update_or_create(person=person, defaults={"agent_ids": sorted(agent_ids), "source": source})
    details = {"fields": ["Agents"], "agents": None if agent_ids is None else sorted(agent_ids)}
    audit.record(by=by, verb="update", row=person, details=details, now=now)
