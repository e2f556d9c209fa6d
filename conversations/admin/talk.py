"""Talk (SPEC W11): a person speaks with an agent as one of its users, and sees what was remembered for each answer.

Questions are asked by the actions of the API's chat. With a script the answer is streamed into the page; without one
the page comes back with the whole answer.
"""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.urls import NoReverseMatch, reverse
from django.utils import timezone, translation
from django.utils.translation import gettext_lazy as _

from conversations.actions.answers import ChatFailed
from conversations.actions.chat import chat, prepare_turn, stream_answer
from conversations.actions.questions import Question
from conversations.actions.unstored_chat import (
    UnstoredTurn,
    answer_unstored,
    prepare_unstored,
    said_in,
    stream_unstored,
)
from conversations.admin.playground import PERMISSIONS
from conversations.admin.talk_form import TalkForm
from conversations.admin.talk_shown import Source, advice_for, exchanges_of, latest_receipt, remembered
from conversations.domain.messages import NewMessage, Role
from conversations.models import ChatTurn, Session
from memoryhub.admin.base import as_uuid, clock, principal, render_page
from memoryhub.admin.object_actions import submitted_text
from memoryhub.api.events import answer_events, event, event_response
from memoryhub.auth.access import actor_for_writing
from memoryhub.db.pool import Stream, run_in_thread
from memoryhub.errors import DomainError
from memoryhub.jobs.executor import error_text
from memoryhub.llm.client import NOT_CONFIGURED, llm_provider
from memoryhub.llm.errors import ProviderError
from memoryhub.llm.types import Delta
from memoryhub.tenancy.models import Agent
from memoryhub.tenancy.policy import PolicyError
from memoryhub.unfold import Page

PAGE: Final = "admin/conversations/talk/page.html"
PART: Final = "admin/conversations/talk/part.html"
TURN: Final = "admin/conversations/talk/turn.html"
REMEMBERED: Final = "admin/conversations/talk/remembered.html"

STORE_PERMISSIONS: Final = ("conversations.add_session", "conversations.add_message", "conversations.add_chatturn")
"""Without them a person may talk, but nothing is stored."""

CHANNEL: Final = "talk"
LEARNT_PAGE: Final = "learnt"

log = logging.getLogger(__name__)


def talk(request: HttpRequest) -> HttpResponseBase:
    """Show a conversation and the form; a POST asks the model."""
    session = _session(request)
    form = _form(request, session)
    if not form.is_bound or not form.is_valid():
        return _page(request, form)
    try:
        if not _has_model():
            return _page(request, form, source=_unstored(form).context)
        return _answer_unstored(request, form) if form.cleaned_data["keeps_nothing"] else _answer(request, form)
    except (DomainError, PolicyError) as error:
        form.add_error(None, str(error))
    except ProviderError as error:
        form.add_error(None, advice_for(error.code))
    return _page(request, form)


def _has_model() -> bool:
    return llm_provider().name != "none"


def _may_store(request: HttpRequest) -> bool:
    user: Any = request.user
    return bool(user.has_perms(STORE_PERMISSIONS))


def _session(request: HttpRequest) -> Session | None:
    text = submitted_text(request, "session")
    if not text:
        return None
    key = as_uuid(text)
    session = Session.objects.select_related("actor__agent").filter(pk=key).first() if key else None
    if session is None:
        raise Http404
    return session


def _form(request: HttpRequest, session: Session | None) -> TalkForm:
    agent, user = submitted_text(request, "agent"), submitted_text(request, "user")
    if agent and not Agent.objects.filter(pk=agent).exists():
        raise Http404
    return TalkForm(
        request.POST or None,
        initial={"agent": agent, "user_id": user} if agent else _latest_speaker(),
        session=session,
        by=principal(request),
        stores=_has_model() and _may_store(request),
    )


def _latest_speaker() -> dict[str, str]:
    """Return the agent and user of the latest conversation."""
    latest = Session.objects.exclude(last_message_at=None).order_by("-last_message_at", "-id")
    names = latest.values_list("actor__agent_id", "actor__user_id").first()
    return dict(zip(("agent", "user_id"), names, strict=True)) if names else {}


def address_of(session: Session) -> str:
    return f"{reverse('talk')}?{urlencode({'session': session.pk})}"


def _learnt_address(session: Session) -> str:
    """Return the page of what was learnt; the app of memories may not be imported here."""
    with suppress(NoReverseMatch):
        return reverse(LEARNT_PAGE, args=[session.pk])
    return ""


# Questions


def _question(form: TalkForm) -> Question:
    session = form.session
    return Question(message=form.cleaned_data["message"], channel=CHANNEL, session_id=session.pk if session else None)


def _answer(request: HttpRequest, form: TalkForm) -> HttpResponseBase:
    """Store the message and its answer, as the API's chat does."""
    by, now = principal(request), clock()
    assert form.tenant is not None
    actor = form.tenant.actor or actor_for_writing(by, form.tenant.agent_id, form.tenant.user_id, now=now)
    asked: dict[str, Any] = {"actor": actor, "question": _question(form), "by": by, "now": now}
    if not _is_fetch(request):
        try:
            return HttpResponseRedirect(address_of(chat(**asked).turn.session))
        except ChatFailed as error:  # the conversation shows what to do
            return HttpResponseRedirect(address_of(error.turn.session))
    prepared = prepare_turn(**asked)
    # Started here, so that the answer is stored even if the browser disconnects before the first event.
    stream = stream_answer(prepared=prepared, by=by)
    end = partial(_stored_end, request, prepared.turn.session)
    return _streamed(request, form, stream, source=prepared.turn.receipt, end=end)


def _stored_end(request: HttpRequest, session: Session, outcome: ChatTurn | Exception) -> dict[str, str]:
    problem = str(outcome) if isinstance(outcome, DomainError) else ""
    form = TalkForm(session=session, by=principal(request), stores=True)
    return {"html": _part(request, form, problem=problem), "address": address_of(session)}


def _unstored(form: TalkForm) -> UnstoredTurn:
    assert form.tenant is not None and form.tenant.actor is not None
    said = [*(said_in(form.session, by=form.by) if form.session else ()), *form.cleaned_data["said"]]
    said.append(NewMessage(role=Role.USER, content=form.cleaned_data["message"]))
    return prepare_unstored(actor=form.tenant.actor, question=_question(form), said=said, by=form.by, now=clock())


def _answer_unstored(request: HttpRequest, form: TalkForm) -> HttpResponseBase:
    """Answer the message with what is remembered; the exchange is stored in the page's form alone."""
    prepared = _unstored(form)
    if _is_fetch(request):
        end = partial(_unstored_end, request, form, prepared)
        return _streamed(request, form, stream_unstored(prepared), source=prepared.context, end=end)
    answer = answer_unstored(prepared).answer
    return _page(request, form.after(answer.content if answer else ""), source=prepared.context)


def _unstored_end(
    request: HttpRequest, form: TalkForm, prepared: UnstoredTurn, outcome: ChatTurn | Exception
) -> dict[str, str]:
    if isinstance(outcome, ChatTurn):
        answer = outcome.answer.content if outcome.answer else ""
        return {"html": _part(request, form.after(answer), source=prepared.context)}
    actor = form.tenant.actor if form.tenant else None
    problem = str(outcome) if isinstance(outcome, DomainError) else advice_for(getattr(outcome, "code", ""), actor)
    return {"html": _part(request, form, source=prepared.context, problem=problem)}


# Answers in pieces


def _is_fetch(request: HttpRequest) -> bool:
    return request.headers.get("X-Requested-With") == "fetch"


def _streamed(
    request: HttpRequest,
    form: TalkForm,
    stream: Stream[Delta | ChatTurn],
    *,
    source: Source,
    end: Callable[[ChatTurn | Exception], dict[str, str]],
) -> HttpResponseBase:
    """Return the events `start`, `delta` and `end`: parts of the page, and pieces of the answer."""
    turn = {"message": form.cleaned_data["message"], "is_stored": not form.cleaned_data["keeps_nothing"]}
    start: dict[str, str] = {
        "turn": render_to_string(TURN, turn, request),
        "remembered": render_to_string(REMEMBERED, remembered(request, source), request),
    }
    language, zone = translation.get_language(), timezone.get_current_timezone()

    def rendered_end(outcome: ChatTurn | Exception) -> dict[str, str]:
        # Neither is active in the thread that ends the stream.
        with translation.override(language), timezone.override(zone):
            return end(outcome)

    return event_response(_events(start, stream, rendered_end))


async def _events(
    start: dict[str, str], stream: Stream[Delta | ChatTurn], end: Callable[[ChatTurn | Exception], dict[str, str]]
) -> AsyncIterator[bytes]:
    yield event("start", start)
    outcome: ChatTurn | Exception = TimeoutError()
    try:
        async for piece in answer_events(stream, last=ChatTurn):
            if isinstance(piece, bytes):
                yield piece
            else:
                outcome = piece
    except Exception as error:
        if not isinstance(error, ChatFailed | ProviderError | DomainError):
            log.error("talk failed", extra={"error": error_text(error)})
        outcome = error
    yield event("end", await run_in_thread(end, outcome))


# The page


def _page(request: HttpRequest, form: TalkForm, *, source: Source = None) -> HttpResponse:
    """Return the page, or to its script the part that changes."""
    if _is_fetch(request):
        return HttpResponse(_part(request, form, source=source))
    return render_page(request, PAGE, title=_("Talk"), **_context(request, form, source))


def _part(request: HttpRequest, form: TalkForm, *, source: Source = None, problem: str = "") -> str:
    context = {**_context(request, form, source), "problem": problem}
    return render_to_string(PART, context, request)


def _context(request: HttpRequest, form: TalkForm, source: Source) -> dict[str, Any]:
    session = form.session
    back = address_of(session) if session and source is None else ""
    receipt = latest_receipt(session) if session and source is None else None
    owner = session.actor if session else None
    again = {"agent": owner.agent_id, "user": owner.user_id} if owner else {}
    return {
        "form": form,
        "session": session,
        "exchanges": exchanges_of(session, form.said_before),
        "has_agents": session is not None or bool(form.fields["agent"].choices),  # type: ignore[attr-defined]
        "may_store": _may_store(request),
        "not_configured": "" if _has_model() else NOT_CONFIGURED,
        "back": back,
        "learnt": _learnt_address(session) if session else "",
        "new": f"{reverse('talk')}?{urlencode(again)}" if again else reverse("talk"),
        **remembered(request, source or receipt, back=back),
    }


PAGES: Final = [Page("talk/", "talk", talk, PERMISSIONS)]
