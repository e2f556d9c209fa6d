"""Memories that were learnt from a conversation, for the talk page (SPEC W11); it asks again while a job reads."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models.functions import Left
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from conversations.admin.talk import address_of
from conversations.models import Session
from memoryhub.admin.base import EXCERPT_SOURCE_LENGTH, clock, format_count, principal, render_page
from memoryhub.admin.columns import full_time
from memoryhub.admin.object_actions import submitted_number
from memoryhub.admin.stored_texts import translated
from memoryhub.jobs.models import Job
from memoryhub.jobs.retries import ENDED_BADLY, OPEN, State
from memoryhub.jobs.status import jobs_status
from memoryhub.llm.client import NOT_CONFIGURED, llm_provider
from memoryhub.unfold import Page
from strength.actions.extraction import extract_now, extraction_state
from strength.admin.memory_list import edit_link, pin_button, row_buttons, state_chip
from strength.models import Memory, MemorySource

PERMISSIONS: Final = ("conversations.view_session", "strength.view_memory")
LEARN_PERMISSION: Final = "strength.add_memory"
PART: Final = "admin/strength/learnt/part.html"
MAX_SHOWN: Final = 30
DELAYS: Final = (3, 3, 4, 5, 5, 5, 10, 10, 15, 15, 30, 30, 30, 30, 60, 60)
"""Seconds between two requests of a page that waits for a job; after the last it stops."""

USUAL_TIME: Final = timedelta(minutes=1)
NEW, CONFIRMED, REPLACED = _("new"), _("known before, confirmed"), _("replaced by a new one")


def learnt(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Show the memories, as a fragment of the talk page or as a page where there is no script; a POST learns now."""
    session = Session.objects.select_related("actor__agent").filter(pk=session_id).first()
    if session is None:
        raise Http404
    if request.method == "POST":
        _learn_now(request, session)
        if request.headers.get("HX-Request") != "true":
            return HttpResponseRedirect(address_of(session))
    state, turn = extraction_state(session=session), submitted_number(request, "turn") or 0
    is_read = state["is_complete"]
    context: dict[str, Any] = {
        "rows": list(_rows(request, session)),
        "is_complete": is_read,
        "is_waiting": not is_read and state["job_state"] in OPEN,
        "has_failed": not is_read and state["job_state"] in ENDED_BADLY,
        "error": translated(Job.objects.filter(pk=state["job_id"]).values_list("error", flat=True).first() or ""),
        "not_configured": NOT_CONFIGURED if llm_provider().name == "none" else "",
        "is_off": not any(strategy["is_on"] for strategy in state["strategies"]),
        "agent_id": session.actor.agent_id,
        "learn_now": "",
    }
    if context["is_waiting"]:
        context["late"] = _late(state["job_id"], clock())
    if _may_learn(request, context) and state["job_state"] != State.RUNNING:
        context["learn_now"] = reverse("learnt", args=[session.pk])
    if request.headers.get("HX-Request") != "true":
        return render_page(request, "admin/strength/learnt/page.html", title=_("What was learnt"), **context)
    if context["is_waiting"] and turn < len(DELAYS):
        again = f"{reverse('learnt', args=[session.pk])}?turn={turn + 1}"
        context |= {"again": again, "seconds": DELAYS[turn]}
    return TemplateResponse(request, PART, {**context, "back": address_of(session)})


def _late(job_id: Any, now: datetime) -> str:
    """Return since when a job waits or runs, and how many jobs wait, where that is longer than usual."""
    job = Job.objects.get(pk=job_id)
    since = job.started_at if job.state == State.RUNNING and job.started_at else job.due_at
    if since > now - USUAL_TIME:
        return ""
    if job.state == State.RUNNING:
        return gettext("A job has read the conversation since %(time)s, longer than usual.") % {
            "time": full_time(since)
        }
    status = jobs_status(now)
    waiting = gettext("The job that reads the conversation has waited since %(time)s. Now %(count)s jobs wait.") % {
        "time": full_time(since),
        "count": format_count(status.jobs.get(State.QUEUED, 0)),
    }
    return f"{waiting} {status.advice}".strip()


def _may_learn(request: HttpRequest, context: dict[str, Any]) -> bool:
    is_possible = not (context["is_complete"] or context["not_configured"] or context["is_off"])
    return is_possible and request.user.has_perm(LEARN_PERMISSION)


def _learn_now(request: HttpRequest, session: Session) -> None:
    if not request.user.has_perm(LEARN_PERMISSION):
        raise PermissionDenied
    if llm_provider().name != "none":
        extract_now(session=session, by=principal(request), now=clock())


def _rows(request: HttpRequest, session: Session) -> Iterator[dict[str, Any]]:
    """Yield memories with a source in the session, the latest first, and those that they replaced."""
    sources = MemorySource.objects.filter(actor_id=session.actor_id, session_id=session.pk)
    memories = Memory.objects.of([session.actor_id]).annotate(opening=Left("content", EXCERPT_SOURCE_LENGTH))
    found = list(memories.filter(pk__in=sources.values("memory_id")).order_by("-updated_at", "-id")[:MAX_SHOWN])
    keys = {memory.pk for memory in found}
    replaced = memories.filter(superseded_by__in=keys).exclude(pk__in=keys).order_by("-updated_at", "-id")
    may_change = request.user.has_perm("strength.change_memory")
    for memory in [*found, *replaced[:MAX_SHOWN]]:
        memory.may_change = may_change  # type: ignore[attr-defined]
        yield {
            "memory": memory,
            "what": _what(memory, session),
            "state": state_chip(memory),
            "pin": pin_button(memory) if may_change else "",
            "buttons": row_buttons(memory),
            "edit": edit_link(memory) if may_change else "",
        }


def _what(memory: Memory, session: Session) -> Any:
    if memory.superseded_by_id is not None:
        return REPLACED
    return NEW if memory.created_at >= session.started_at else CONFIRMED


PAGES: Final = [Page("talk/<uuid:session_id>/learnt/", "learnt", learnt, PERMISSIONS)]
